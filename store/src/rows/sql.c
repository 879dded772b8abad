/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of statements, their texts as an engine takes them, and callbacks that most steps use; sql.h. */
#include "rows/sql.h"

#include <stdio.h>
#include <stdlib.h>

const struct hwts_statement hwts_statements[HWTS_SQLS] = {
#define HWTS_STATEMENT(is, word, types, sqlite, postgres) [HWTS_SQL_##is] = { word, types, sqlite, postgres },
#include "sql/statements.h"
#undef HWTS_STATEMENT
};

#define HWTS_STATEMENT(is, word, types, sqlite, postgres)                                                              \
	_Static_assert(sizeof(types) <= HWTS_ARGS + 1, #is " has more parameters than HWTS_ARGS");
#include "sql/statements.h"
#undef HWTS_STATEMENT

static const char *const POSTGRES_NOW = "(select (extract(epoch from clock_timestamp()) * 1000000)::bigint)";

struct output {
	const char *here; /* or NULL */
	char *to;         /* NULL: the text is only measured */
	size_t len;
	char quote; /* the quote that is open at this place, or 0 */
};

static void put(struct output *out, const char *text, size_t len)
{
	if (out->to)
		memcpy(out->to + out->len, text, len);
	out->len += len;
}

static void put_text(struct output *out, const char *text)
{
	put(out, text, strlen(text));
}

static void put_parameter(struct output *out, long number, char type)
{
	static const char *const casts[] = { "i::bigint", "n::int",      "b::bool",   "t::text",     "k::bytea",
					     "d::bytea",  "I::bigint[]", "N::int[]",  "J::bigint[]", "B::bool[]",
					     "l::int[]",  "K::bytea[]",  "D::bytea[]" };
	char text[24];

	for (size_t i = 0; i < HWTS_COUNT(casts); i++)
		if (casts[i][0] == type)
			put(out, text, (size_t)snprintf(text, sizeof(text), "$%ld%s", number, casts[i] + 1));
}

/* Puts what a word that begins with @ stands for, and returns the length of the word. */
static size_t put_word(struct output *out, const struct hwts_db *db, const char *text, bool postgres)
{
	const struct {
		const char *word, *sqlite, *postgres;
	} words[] = {
		{ "@here", out->here ? out->here : ")", out->here ? out->here : "" },
		{ "@values", out->here ? " select " : " values (", "" },
		{ "@now", "?31", POSTGRES_NOW },
		{ "@news", "", db->channel },
		{ "@boot", "?32", POSTGRES_NOW },
		{ "@mono", "?30", "0" },
		{ "@any", "", "any" },
		{ "@in", "in (select value from json_each", "= any" },
		{ "@end", ")", "" },
		{ "@tx", "", ", tx = pg_current_xact_id()" },
		{ "@", db->prefix, db->prefix },
	};
	size_t i = 0;

	if (text[1] == '_' && !out->quote)
		put_text(out, db->schema);
	while (strncmp(text, words[i].word, strlen(words[i].word)) != 0)
		i++;
	put_text(out, postgres ? words[i].postgres : words[i].sqlite);
	return strlen(words[i].word);
}

static void expand(struct output *out, const struct hwts_db *db, const char *text, const char *types, bool postgres)
{
	while (*text) {
		if (*text == '@') {
			text += put_word(out, db, text, postgres);
		} else if (*text == '?' && postgres) {
			char *end;
			long number = strtol(text + 1, &end, 10);

			put_parameter(out, number, types[number - 1]);
			text = end;
		} else if (*text == '`') {
			put_text(out, db->schema);
			put_text(out, db->prefix);
			put(out, "_", 1);
			text++;
		} else {
			if (*text == out->quote)
				out->quote = '\0';
			else if (!out->quote && (*text == '\'' || *text == '"'))
				out->quote = *text;
			put(out, text++, 1);
		}
	}
	put(out, "", 1);
}

static char *expanded(const struct hwts_db *db, const char *text, const char *types, bool postgres, const char *here)
{
	struct output out = { .here = here };

	expand(&out, db, text, types, postgres);
	out = (struct output){ .here = here, .to = hwts_alloc(out.len) };
	if (out.to)
		expand(&out, db, text, types, postgres);
	return out.to;
}

char *hwts_sql_text(const struct hwts_db *db, enum hwts_sql sql, bool postgres, const char *here)
{
	const struct hwts_statement *statement = &hwts_statements[sql];

	return expanded(db, postgres && statement->postgres ? statement->postgres : statement->sqlite, statement->types,
			postgres, here);
}

char *hwts_sql(const struct hwts_db *db, const char *text)
{
	return expanded(db, text, "", false, NULL);
}

int hwts_note_row(void *found, const struct hwts_value *row)
{
	(void)row;
	*(bool *)found = true;
	return 0;
}

int hwts_note_number(void *number, const struct hwts_value *row)
{
	*(int64_t *)number = row[0].number;
	return 0;
}
