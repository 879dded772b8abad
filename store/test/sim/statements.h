/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers that the files of statements share; tables.h. */
#ifndef HWTS_SIM_STATEMENTS_H
#define HWTS_SIM_STATEMENTS_H

#include "tables.h"

typedef int sim_statement(struct act *act);
typedef bool is_for(struct act *act, const struct version *version);

extern sim_statement *const sim_timeout_statements[HWTS_SQLS], *const sim_share_statements[HWTS_SQLS],
								   *const sim_put_statements[HWTS_SQLS],
								       *const sim_rules_statements[HWTS_SQLS];

/* Arguments, from 0 on: a number, the length of an array, a number of an array, a text. */
#define NUMBER_ARG(i) (act->step->args[i].number)
#define COUNT_ARG(i) (act->step->args[i].len)
#define ITEM_ARG(i, at) (((const int64_t *)act->step->args[i].bytes)[at])
#define TEXT_ARG(i) (&act->step->args[i])

#define SIM_EMIT(act, ...)                                                                                             \
	sim_emit_numbers((act), (const int64_t[]){ __VA_ARGS__ }, HWTS_COUNT(((const int64_t[]){ __VA_ARGS__ })))
void sim_emit_numbers(struct act *act, const int64_t *numbers, size_t n);

/* Each row of a table that a statement sees. */
#define EACH_SEEN(act, table, t)                                                                                       \
	EACH_ROW(table, row) for (const struct version *t = sim_see((act), row); (t); (t) = NULL)

struct row *sim_find_row(struct act *act, int64_t id, const struct version **version);
/* Finds the row whose first number, its id, is this; NULL: the statement sees none.  out may be NULL. */
const struct version *sim_find(struct act *act, enum table table, int64_t id, struct row **out);
/*
 * Finds the row that a unique index has for this key; NULL: none.  Waits for transactions of which it is not known yet
 * whether they insert the key.
 */
typedef bool sim_has_key(const struct act *act, const struct version *version, size_t i);
int sim_find_unique(struct act *act, enum table table, sim_has_key *has_key, size_t i, struct row **out);
int sim_change_rows(struct act *act); /* all statements that change rows one by one */
void sim_emit_due(struct act *act, int64_t part, const struct version *t);
void sim_swap_next(struct version *version); /* swaps the row with its replacement */
void sim_drop_next(struct version *version);

static inline bool sim_is_text(const struct text *text, const struct hwts_value *value)
{
	return text && value->bytes && text->len == value->len && memcmp(text->bytes, value->bytes, text->len) == 0;
}

static inline struct hwts_value sim_text_value(const struct text *text)
{
	return text ? (struct hwts_value){ .bytes = text->bytes, .len = text->len }
		    : (struct hwts_value){ .number = 0 };
}

static inline const struct version *sim_shard(struct act *act, int64_t id, struct row **out)
{
	return sim_find(act, SHARD, id, out);
}

/* True: number is in the array. */
static inline bool sim_is_among(const struct act *act, int arg, int64_t number)
{
	for (size_t i = 0; i < COUNT_ARG(arg); i++)
		if (ITEM_ARG(arg, i) == number)
			return true;
	return false;
}

/* Three arguments from `at` on: bucket, kind and group. */
static inline bool sim_is_in_group(const struct act *act, const struct version *t, int at)
{
	return (t->n[ID] & (HWTS_BUCKETS - 1)) == NUMBER_ARG(at) && t->n[KIND_OF] == NUMBER_ARG(at + 1) &&
	       sim_is_text(t->s[GROUP], TEXT_ARG(at + 2));
}

/* True: the lease counts. */
static inline bool sim_is_live(const struct act *act, int64_t until_us)
{
	return until_us >= act->now_us + 1 && until_us <= act->now_us + INT64_C(3600000000);
}

/* world.c: begins of the row are refused; ends: its ends are. */
bool sim_is_poisoned(const struct row *row, bool ends);
bool sim_is_unreadable(const struct version *t); /* nothing can read the row except the indexes */

#endif
