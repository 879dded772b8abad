/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random scripts of statements for store_differs.c.
 *
 * A script is drawn as a whole before it runs, so leaving out some moves does not change the others.  The generator has
 * a few timeouts, shards, processes and kinds, and a belief of what the tables say about them: so most statements find
 * a row, and some find none.
 */
#ifndef HWT_TEST_DIFFERS_SCRIPT_H
#define HWT_TEST_DIFFERS_SCRIPT_H

#include "rows/sql.h"

/*
 * What a statement's parameters are drawn from, a letter for each, and how many columns its rows have (0: no rows):
 *
 *   i id            e epoch of a row     T time            w delay, or a time if the bool behind says so
 *   t a time before most                 U a time after most
 *   I a new id      E epoch of a shard   W duration        v the same; the bool says the opposite
 *   k kind          s shard              c count           N process     O the owner of a shard
 *   B bucket        R rules of a shard   A attempts        r incarnation l kinds of a process
 *   g group         m states             P priority        K kind's name o mode
 *   y key           b bool               p period          x error       h store
 *   d data          S snapshot           n news            C schedule    z zone
 *   j a time of now, not 0               J a base that is kept, or not
 *   q most runs     Q most runs, or -1   L levels          u how many numbers   a how much later  M a kind to remove
 *   V why timeouts wait
 */
/* clang-format off */
#define MEANING(is, its_columns, its_domain) [HWTS_SQL_##is] = { #is, its_domain, its_columns }
static const struct meaning {
	const char *name, *domain;
	unsigned columns;
} meanings[HWTS_SQLS] = {
	MEANING(GET, 15, "ic"), MEANING(FIND, 2, "Bkgy"), MEANING(PLACES, 3, "stimcbbU"),
	MEANING(GROUP_PLACES, 3, "BkgtiUmc"), MEANING(INFOS, 15, "ib"),
	MEANING(CANCEL, 1, "iem"), MEANING(CANCEL_ALL, 1, "im"), MEANING(CANCEL_LAST, 1, "ib"),
	MEANING(CANCEL_NEXT, 1, "i"), MEANING(RESCHEDULE, 6, "iwbme"), MEANING(RESCHEDULE_ALL, 6, "iTm"),
	MEANING(STATES, 3, "i"), MEANING(TELL, 0, "iNbW"), MEANING(TELL_PUT, 0, "iswbPgcNW"),
	MEANING(KIND, 5, "K"), MEANING(KIND_LOCK, 0, ""), MEANING(KIND_SHARE, 0, ""), MEANING(KIND_MAKING, 0, ""),
	MEANING(FLUSH, 0, ""), MEANING(KIND_MAKE, 0, "K2oW"),
	MEANING(KIND_OPEN, 0, "KoW"), MEANING(KIND_SHARDS, 0, "K"), MEANING(KINDS, 14, ""), MEANING(WAITS, 3, ""),
	MEANING(KIND_ROWS, 1, "M"),
	MEANING(KIND_REMOVE, 1, "M"), MEANING(KIND_GROUPS, 0, "M"), MEANING(KIND_RULES, 0, "M"),
	MEANING(JOIN, 1, "NrWlr"), MEANING(NAMESAKE, 3, "N"), MEANING(LEAVE, 0, "Nr"), MEANING(BURY, 0, ""),
	MEANING(CALL, 0, ""), MEANING(RENEW, 1, "NWrlVV"), MEANING(MEMBERS, 2, "k"), MEANING(SHARDS, 6, "kN"),
	MEANING(CLOCK, 1, ""), MEANING(SNAPSHOT, 1, ""),
	MEANING(LOOK, 8, "sEUtic"), MEANING(LOOK_GROUP, 8, "BkgtiUiPc"), MEANING(LOOK_NO_GROUP, 8, "stiUiPc"),
	MEANING(LOOK_NEXT, 2, "tis"), MEANING(LOOK_NEXT_IN, 2, "tiBkg"), MEANING(SWEEP, 8, "sETicSUtti"),
	MEANING(OVER, 0, "s"), MEANING(TAKE, 4, "sEO"), MEANING(GIVE, 0, "sEOLb"),
	MEANING(SHARE, 0, "s"), MEANING(BEGIN, 1, "isEOeEAAR"), MEANING(BEGIN_UNLOCKED, 1, "isEOeEAAR"),
	MEANING(BEGUN, 14, "i"), MEANING(BEGIN_UNDO, 0, "ie"), MEANING(PENDING, 9, "i"), MEANING(INHERIT, 2, "ieW"),
	MEANING(END_LOCK, 1, "i"), MEANING(END_DONE, 1, "ie"), MEANING(END_AGAIN, 2, "ievbTTAxbb"),
	MEANING(END_FAIL, 1, "iexb"), MEANING(END_LAST, 1, "ie"), MEANING(END_NEXT, 4, "iebj"), MEANING(CLOSE, 1, "ie"),
	MEANING(DRAW, 1, "u"), MEANING(PUT, 4, "IkswbpPgydb"),
	MEANING(PUT_KEYED, 4, "IkswbpPgyd"), MEANING(PUT_REPLACE, 4, "IkswbpPgydaCzWW"),
	MEANING(PUT_REVIVE, 4, "IkswbpPgydaCzWW"), MEANING(PUT_SERIES, 4, "IkswbpPgydaCzWW"),
	MEANING(KEEP_READ, 15, "BkgypPCzaad"), MEANING(KEEP_LOCK, 1, "i"), MEANING(KEEP_NOW, 4, "iUTpPCzWWd"),
	MEANING(KEEP_NEXT, 4, "ijJpPCzWWdb"),
	MEANING(STORE, 3, "K"), MEANING(HERE, 1, "h"), MEANING(OTHERS, 1, "sN"),
	MEANING(RULES, 7, "s"), MEANING(RULES_OWN, 7, "Bk"), MEANING(RULES_RUN, 8, "sEtic"),
	MEANING(RULES_LOCK, 0, "s"), MEANING(RULES_RAISE, 0, "s"), MEANING(RULES_TELL, 0, "sN"),
	MEANING(RULES_BACK, 0, "k"), MEANING(RULES_THERE, 1, "k"), MEANING(PAUSE_KIND, 0, "kb"),
	MEANING(PAUSE_GROUP, 0, "Bkgb"), MEANING(LIMIT_KIND, 0, "kqWq"), MEANING(LIMIT_GROUP, 0, "BkgQWq"),
	MEANING(TIDY_GROUP, 0, "Bkg"),
};
/* clang-format on */

enum what { DOES, COMMITS, ROLLS_BACK, SAVES, GOES_BACK };

struct move {
	enum what what;
	unsigned conn;
	bool stays_open;
	int64_t now_us; /* the clock of the databases */
	struct hwts_step step;
};

#define MOVES 150
#define NO_SNAPSHOT ((const void *)meanings) /* stands for the snapshot that the database answered last */

static struct move script[MOVES];
static unsigned moves;

/* The timeouts, shards and kinds of a script. */
#define SHARDS_OF_KIND 2
#define SCRIPT_KINDS 3
#define PROCESSES 3
#define FIRST_US INT64_C(1796000000000000)

struct subject {
	int64_t id, epoch;
	int kind;
	const char *group, *key;
};
static struct subject subjects[3 * MOVES + 20];
static unsigned subject_count;
static struct belief {
	int64_t epoch, rules;
	unsigned owner;
} shards_believed[SCRIPT_KINDS * SHARDS_OF_KIND];

static uint64_t script_state;
static int64_t script_now_us, next_number;
static char script_room[4 << 20];
static size_t script_used;

static uint64_t draw(uint64_t below)
{
	script_state ^= script_state << 13;
	script_state ^= script_state >> 7;
	script_state ^= script_state << 17;
	return (script_state >> 11) % below;
}

static void *script_alloc(size_t size)
{
	void *room = script_room + script_used;

	script_used += (size + 15) / 16 * 16;
	REQUIRE(script_used <= sizeof(script_room));
	return room;
}

#define DRAW_OF(...)                                                                                                   \
	((const int64_t[]){ __VA_ARGS__ })[draw(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))]
#define DRAW_TEXT(...)                                                                                                 \
	((const char *const[]){ __VA_ARGS__ })[draw(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))]

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define LONGEST FIFTY FIFTY FIFTY FIFTY FIFTY "12345" /* the longest key or group */

static const char *draw_key(void)
{
	return DRAW_TEXT(NULL, NULL, "k", "k", "l", "it's \"q\" \\ %", "\xff\x80\xc3\xa4 bytes", LONGEST);
}

static const char *draw_group(void)
{
	return DRAW_TEXT("", "", "", "g", "g", "it's \"q\" \\ %", "\xff\x80\xc3\xa4 bytes", LONGEST);
}

static const char *kind_name(uint64_t i)
{
	static const char *const names[] = { "a", "it's \"b\" \\", "\xc3\xa4\xe2\x82\xac", "d" };

	return names[i];
}

static const char *process_name(uint64_t i)
{
	static const char *const names[] = { "one", "tw'o \xc3\xa4", "three" };

	return names[i];
}

static int32_t shard_of(const struct subject *subject)
{
	return subject->kind * HWTS_SHARDS_MAX + (int32_t)((subject->id & (HWTS_BUCKETS - 1)) % SHARDS_OF_KIND);
}

static unsigned believed(const struct subject *subject)
{
	return (unsigned)((subject->kind - 1) * SHARDS_OF_KIND) + (unsigned)shard_of(subject) % SHARDS_OF_KIND;
}

enum likeness { NEW_GROUP, SAME_GROUP, SAME_KEY };

static struct subject *new_subject(const struct subject *like, enum likeness as)
{
	struct subject *made = &subjects[subject_count++];

	REQUIRE(subject_count <= sizeof(subjects) / sizeof(subjects[0]));
	*made = (struct subject){ .kind = as == NEW_GROUP ? 1 + (int)draw(SCRIPT_KINDS) : like->kind,
				  .group = as == NEW_GROUP ? draw_group() : like->group,
				  .key = as == SAME_KEY    ? like->key
					 : as == NEW_GROUP ? draw_key()
							   : NULL };
	made->id = hwts_id_of(next_number++, made->group[0] ? made->group : NULL, made->key);
	return made;
}

/* Draws one of the newest timeouts, mostly. */
static struct subject *old_subject(void)
{
	uint64_t back = draw(HWTS_MIN(draw(4) ? 12 : subject_count, subject_count));

	return &subjects[subject_count - 1 - back];
}

/* Draws a timeout that may run, if there is one. */
static struct subject *running_subject(void)
{
	struct subject *found = old_subject();

	for (int i = 0; i < 20 && found->epoch == 0; i++)
		found = old_subject();
	return found;
}

/* One parameter in ODDS concerns no row, or is far off. */
#define ODDS 12

static int64_t draw_number(char letter, const struct subject *of)
{
	int64_t epoch = shards_believed[believed(of)].epoch;

	switch (letter) {
	case 'I':
		return of->id;
	case 'i':
		return draw(ODDS) ? of->id : DRAW_OF(0, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 53, of->id + 1024);
	case 'e':
		return draw(ODDS) ? of->epoch : DRAW_OF(0, 1, 2, -1, INT64_MAX);
	case 'E':
		return draw(ODDS) ? epoch : DRAW_OF(epoch - 1, epoch + 1, 0, INT64_MAX);
	case 'k':
		return draw(ODDS) ? of->kind : SCRIPT_KINDS + 1;
	case 'B':
		return of->id & (HWTS_BUCKETS - 1);
	case 's':
		return draw(ODDS) ? shard_of(of) : DRAW_OF(-1 - shard_of(of), -1 - shard_of(of), -1, 0, INT32_MAX);
	case 'R':
		return shards_believed[believed(of)].rules + (draw(ODDS) ? 0 : 1);
	case 'T':
		return DRAW_OF(script_now_us - 100000000, script_now_us, script_now_us + 1000000,
			       script_now_us + 70000000, 0, 1, -5, INT64_MAX - 1, INT64_MIN,
			       script_now_us + INT64_C(3600000000), INT64_MIN, INT64_MAX - 1);
	case 't':
		return DRAW_OF(INT64_MIN, INT64_MIN, INT64_MIN, -5, 0, script_now_us - 100000000, script_now_us);
	case 'U':
		return DRAW_OF(INT64_MAX, INT64_MAX, script_now_us + 70000000, script_now_us + 1, script_now_us, 0);
	case 'j':
		return script_now_us + DRAW_OF(-100000000, -1, 0, 1, 60000000);
	case 'J':
		return DRAW_OF(1, -1, -1, -1) * (script_now_us + DRAW_OF(-100000000, -1, 0, 60000000));
	case 'u':
		return DRAW_OF(1, 2, 100000, INT64_C(1) << 50);
	case 'w':
	case 'v':
		return DRAW_OF(0, 1, -1000000, -1000000, -1000000, 2000000, 80000000, INT64_C(1) << 50);
	case 'W':
		return DRAW_OF(0, 1, 1000, 1000000, 5000000, 60000000, 60000000, INT64_C(3600000000),
			       INT64_C(3600000001));
	case 'a':
		return DRAW_OF(0, 0, 0, 1, 1000, 60000000);
	case 'p':
		return DRAW_OF(0, 0, 1, 1000000, INT64_C(1) << 50);
	case 'P':
		return DRAW_OF(0, 0, 0, 1, -1, 100, -100);
	case 'c':
		return DRAW_OF(0, 1, 2, 5, 100, 100);
	case '2':
		return SHARDS_OF_KIND;
	case 'A':
		return DRAW_OF(0, 1, 2, 20, 20, 20, INT32_MAX);
	case 'm':
		return DRAW_OF(0, 2, 4, 8, 14, 14, 14, 10);
	case 'r':
		return DRAW_OF(1, 1, 1, 2, INT64_MAX);
	case 'o':
		return DRAW_OF(-1, -1, 0, 1);
	case 'q':
		return DRAW_OF(0, 1, 5, INT32_MAX);
	case 'Q':
		return DRAW_OF(-1, -1, 0, 1, INT32_MAX);
	default: /* b */
		return (int64_t)draw(2);
	}
}

static struct hwts_value draw_data(void)
{
	static const char bytes[] = "\0'\xff\x80\\ \" data";

	switch (draw(4)) {
	case 0:
		return (struct hwts_value){ .bytes = NULL };
	case 1:
		return (struct hwts_value){ .bytes = bytes, .len = 0 };
	default:
		return (struct hwts_value){ .bytes = bytes, .len = 1 + draw(sizeof(bytes)) };
	}
}

static const char *draw_text(char letter, const struct subject *of)
{
	char *news;

	switch (letter) {
	case 'g':
		return draw(ODDS) ? of->group : draw_group();
	case 'y':
		return draw(ODDS) ? of->key : draw_key();
	case 'N':
		return process_name(draw(PROCESSES));
	case 'O':
		return process_name(draw(ODDS) ? shards_believed[believed(of)].owner : draw(3));
	case 'K':
		return kind_name(draw(SCRIPT_KINDS + 1));
	case 'M':
		return kind_name(draw(4) ? SCRIPT_KINDS : draw(SCRIPT_KINDS));
	case 'x':
		return DRAW_TEXT("it failed", "it's \"q\" \xc3\xa4", FIFTY FIFTY);
	case 'C':
		return DRAW_TEXT(NULL, NULL, "0 3 * * *");
	case 'V':
		return DRAW_TEXT(NULL, "1:pause=1@1", "1:pause=1@1", "2:cap=2@5,row=1@0");
	case 'z':
		return DRAW_TEXT(NULL, "Europe/Berlin");
	case 'n':
		news = script_alloc(40);
		(void)snprintf(news, 40, "%" PRId64 ":*:%u", of->id, (unsigned)draw(9));
		return news;
	default: /* h */
		return DRAW_TEXT("the store", "another");
	}
}

static struct hwts_value draw_bytes(char letter, const struct subject *of)
{
	const char *text;

	if (letter == 'd' || letter == 'L')
		return draw_data();
	if (letter == 'S')
		return (struct hwts_value){ .bytes = NO_SNAPSHOT };
	text = draw_text(letter, of);
	return (struct hwts_value)HWTS_TEXT(text);
}

/* The timeouts that an array is about, each once, in the order of the statement's first array. */
struct picks {
	struct subject *of[4];
	int64_t first[4];
	size_t n;
};

static void pick(struct picks *picks, char letter, size_t n)
{
	struct subject *first = picks->of[0];

	picks->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct subject *of = i == 0          ? first
				     : letter == 'I' ? new_subject(first, draw(2) ? NEW_GROUP : SAME_GROUP)
						     : old_subject();
		int64_t number = draw_number(letter, of);
		size_t at = picks->n;

		while (at > 0 && picks->first[at - 1] > number)
			at--;
		if (at > 0 && picks->first[at - 1] == number)
			continue;
		for (size_t j = picks->n++; j > at; j--) {
			picks->of[j] = picks->of[j - 1];
			picks->first[j] = picks->first[j - 1];
		}
		picks->of[at] = of;
		picks->first[at] = number;
	}
}

static struct hwts_value draw_array(char type, char letter, const struct picks *picks, bool is_first)
{
	struct hwts_value array = { .len = picks->n };
	int64_t *numbers = script_alloc((picks->n + 1) * sizeof(*numbers));
	struct hwts_value *values = script_alloc((picks->n + 1) * sizeof(*values));

	array.bytes = numbers;
	if (strchr("KD", type))
		array.bytes = values;
	for (size_t i = 0; i < picks->n; i++)
		if (strchr("KD", type))
			values[i] = draw_bytes(letter, picks->of[i]);
		else
			numbers[i] = is_first ? picks->first[i] : draw_number(letter, picks->of[i]);
	return array;
}

static int64_t number_at(const struct hwts_step *step, int arg, size_t i)
{
	return hwts_statements[step->sql].types[arg] <= 'Z' ? ((const int64_t *)step->args[arg].bytes)[i]
							    : step->args[arg].number;
}

/* Changes times to delays where the bool behind says so. */
static void settle_delays(struct hwts_step *step, const char *types, const char *domain)
{
	for (int i = 0; domain[i]; i++) {
		struct hwts_value *arg = &step->args[i];
		size_t n = types[i] <= 'Z' ? arg->len : 1;
		int64_t *times;

		if (domain[i] != 'w' && domain[i] != 'v')
			continue;
		times = script_alloc((n + 1) * sizeof(*times));
		for (size_t j = 0; j < n; j++)
			times[j] = number_at(step, i, j) +
				   ((number_at(step, i + 1, j) != 0) == (domain[i] == 'w') && draw(ODDS) ? script_now_us
													 : 0);
		for (size_t j = 0; j < n; j++) /* no timeout is due at 0, which is null in the simulation */
			times[j] += times[j] == 0;
		if (types[i] <= 'Z')
			arg->bytes = times;
		else
			arg->number = times[0];
	}
}

static void believe(const struct hwts_step *step, const struct picks *picks)
{
	struct subject *of = picks->of[0];
	unsigned at = believed(of);

	shards_believed[at].epoch += step->sql == HWTS_SQL_TAKE;
	for (unsigned i = 0; i < PROCESSES; i++)
		if (step->sql == HWTS_SQL_TAKE && step->args[2].bytes == process_name(i))
			shards_believed[at].owner = i;
	if (step->sql == HWTS_SQL_RULES_RAISE)
		for (size_t i = 0; i < picks->n; i++)
			shards_believed[believed(picks->of[i])].rules++;
	if (step->sql == HWTS_SQL_BEGIN || step->sql == HWTS_SQL_BEGIN_UNLOCKED)
		for (unsigned i = 0; i < subject_count; i++)
			for (size_t j = 0; j < step->args[0].len; j++)
				if (subjects[i].id == ((const int64_t *)step->args[0].bytes)[j])
					subjects[i].epoch = step->args[2].number;
}

static bool is_put(enum hwts_sql sql)
{
	return sql >= HWTS_SQL_PUT && sql <= HWTS_SQL_PUT_SERIES;
}

/* about: the timeout that the statement is about, or NULL. */
static void draw_statement(struct move *move, enum hwts_sql sql, struct subject *about)
{
	const char *types = hwts_statements[sql].types, *domain = meanings[sql].domain;
	struct picks picks = { .of = { about ? about : draw(2) ? old_subject() : running_subject() } };
	bool has_array = false;

	move->step = (struct hwts_step){ .sql = sql };
	if (strlen(types) != strlen(domain))
		fprintf(stderr, "%s: %zu parameters, and a domain for %zu\n", meanings[sql].name, strlen(types),
			strlen(domain));
	REQUIRE(strlen(types) == strlen(domain));
	if (sql == HWTS_SQL_PUT && draw(4))
		picks.of[0] = new_subject(picks.of[0], SAME_GROUP); /* without a key */
	else if (is_put(sql))
		picks.of[0] = new_subject(picks.of[0], about || draw(3) ? SAME_KEY : NEW_GROUP);
	for (int i = 0; types[i]; i++) {
		struct hwts_value *arg = &move->step.args[i];

		if (types[i] == 'J' || types[i] == 'l') {
			struct picks more = { .of = { picks.of[0] } };

			pick(&more, types[i] == 'l' ? 'k' : domain[i], draw(ODDS) ? 1 + draw(4) : 0);
			*arg = draw_array('I', domain[i], &more, true);
		} else if (types[i] <= 'Z') {
			if (!has_array)
				pick(&picks, domain[i], draw(ODDS) ? 1 + draw(4) : 0);
			*arg = draw_array(types[i], domain[i], &picks, !has_array);
			has_array = true;
		} else if (strchr("tkd", types[i])) {
			*arg = draw_bytes(domain[i], picks.of[0]);
		} else {
			arg->number = draw_number(domain[i], picks.of[0]);
		}
	}
	settle_delays(&move->step, types, domain);
	believe(&move->step, &picks);
}

/* Makes kinds, and processes that hold the kinds' shards. */
static void begin_script(void)
{
	static const enum hwts_sql first[] = { HWTS_SQL_KIND_MAKE, HWTS_SQL_KIND_SHARDS, HWTS_SQL_JOIN };
	struct subject shard = { .group = "" };

	int kinds = SCRIPT_KINDS + (int)draw(2); /* the fourth kind has no rows */

	for (int i = 0; i < kinds; i++)
		for (size_t j = 0; j < (i < PROCESSES ? 3 : 2); j++) {
			struct move *move = &script[moves++];

			draw_statement(move, first[j], NULL);
			move->step.args[0] = (struct hwts_value)HWTS_TEXT(
			    first[j] == HWTS_SQL_JOIN ? process_name((uint64_t)i) : kind_name((uint64_t)i));
		}
	for (shard.kind = 1; shard.kind <= SCRIPT_KINDS; shard.kind++)
		for (shard.id = 0; shard.id < SHARDS_OF_KIND; shard.id++) {
			struct move *move = &script[moves++];

			draw_statement(move, HWTS_SQL_TAKE, NULL);
			move->step.args[0].number = shard_of(&shard);
			move->step.args[1].number = 0;
			move->step.args[2] = (struct hwts_value)HWTS_TEXT(process_name(believed(&shard) % 2));
		}
	for (unsigned i = 0; i < SCRIPT_KINDS * SHARDS_OF_KIND; i++)
		shards_believed[i] = (struct belief){ .epoch = 1, .owner = i % 2 };
	for (unsigned i = 0; i < moves; i++)
		script[i].now_us = script_now_us;
}

static enum hwts_sql draw_sql(const bool *allowed)
{
	static const enum hwts_sql often[] = { HWTS_SQL_PUT,      HWTS_SQL_PUT_KEYED, HWTS_SQL_PUT_REPLACE,
					       HWTS_SQL_BEGIN,    HWTS_SQL_BEGIN,     HWTS_SQL_PUT_SERIES,
					       HWTS_SQL_END_FAIL, HWTS_SQL_BEGIN,     HWTS_SQL_CANCEL_LAST };
	enum hwts_sql sql;

	do
		sql = draw(5) > 1 ? (enum hwts_sql)draw(HWTS_SQLS) : often[draw(sizeof(often) / sizeof(often[0]))];
	while (!allowed[sql]);
	return sql;
}

/* The life of a timeout: it is put and begun, and then it ends in some way; other statements come in between. */
static struct {
	struct subject *of; /* NULL: no timeout */
	unsigned at;
	enum hwts_sql then[2];
} plot;

static void draw_next(struct move *move, const bool *allowed)
{
	static const enum hwts_sql ends[][2] = {
		{ HWTS_SQL_PUT_REPLACE, HWTS_SQL_END_NEXT },    { HWTS_SQL_PUT_REPLACE, HWTS_SQL_CANCEL_NEXT },
		{ HWTS_SQL_CANCEL_LAST, HWTS_SQL_END_LAST },    { HWTS_SQL_INHERIT, HWTS_SQL_LOOK_GROUP },
		{ HWTS_SQL_END_AGAIN, HWTS_SQL_LOOK_NO_GROUP }, { HWTS_SQL_CLOSE, HWTS_SQL_END_DONE },
		{ HWTS_SQL_END_FAIL, HWTS_SQL_PUT_REVIVE },     { HWTS_SQL_RULES_RUN, HWTS_SQL_END_FAIL },
		{ HWTS_SQL_KEEP_NEXT, HWTS_SQL_END_NEXT },      { HWTS_SQL_KEEP_NEXT, HWTS_SQL_END_AGAIN },
		{ HWTS_SQL_KEEP_NEXT, HWTS_SQL_END_FAIL },      { HWTS_SQL_KEEP_NEXT, HWTS_SQL_PENDING },
		{ HWTS_SQL_KEEP_NEXT, HWTS_SQL_RESCHEDULE },    { HWTS_SQL_RENEW, HWTS_SQL_WAITS },
		{ HWTS_SQL_RENEW, HWTS_SQL_WAITS },
	};

	if (!plot.of && allowed[HWTS_SQL_KIND_REMOVE] && draw(40) == 0) {
		draw_statement(move, HWTS_SQL_KINDS, NULL);
		plot.of = old_subject();
		plot.at = 1;
		plot.then[0] = HWTS_SQL_KIND_REMOVE;
		plot.then[1] = HWTS_SQL_KIND_RULES;
	} else if (!plot.of && draw(6) == 0) {
		uint64_t end = draw(sizeof(ends) / sizeof(ends[0]));

		draw_statement(move, draw(2) ? HWTS_SQL_PUT_SERIES : HWTS_SQL_PUT_REPLACE, NULL);
		plot.of = &subjects[subject_count - 1];
		plot.at = 0;
		plot.then[0] = ends[end][0];
		plot.then[1] = ends[end][1];
	} else if (plot.of && draw(2)) {
		draw_statement(move, plot.at == 0 ? HWTS_SQL_BEGIN : plot.then[plot.at - 1], plot.of);
		plot.at++;
		plot.of = plot.at == 3 ? NULL : plot.of;
	} else {
		draw_statement(move, draw_sql(allowed), NULL);
	}
}

/* conns: how many connections have open transactions at the same time. */
static void draw_script(uint64_t seed, const bool *allowed, unsigned conns)
{
	bool is_open[2] = { false, false }, is_saved[2] = { false, false };
	struct belief before[SCRIPT_KINDS * SHARDS_OF_KIND];

	script_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (int i = 0; i < 8; i++)
		(void)draw(2);
	script_used = subject_count = moves = 0;
	plot.of = NULL;

	memset(shards_believed, 0, sizeof(shards_believed));
	next_number = 1000;
	script_now_us = FIRST_US;
	(void)new_subject(NULL, NEW_GROUP);
	begin_script();
	while (moves < MOVES) {
		struct move *move = &script[moves++];
		unsigned conn = move->conn = (unsigned)draw(conns);

		script_now_us += DRAW_OF(0, 0, 0, 1, 1000000, 3000000);
		*move = (struct move){ .conn = conn, .now_us = script_now_us, .what = DOES };
		if (is_open[conn] && draw(5) == 0) {
			move->what = is_saved[conn] && draw(2) ? GOES_BACK : draw(3) ? COMMITS : ROLLS_BACK;
			is_saved[conn] = false;
			if (move->what == ROLLS_BACK)
				memcpy(shards_believed, before, sizeof(before));
			is_open[conn] = move->what == GOES_BACK;
		} else if (is_open[conn] && !is_saved[conn] && draw(8) == 0) {
			move->what = SAVES;
			is_saved[conn] = true;
		} else {
			if (!is_open[conn])
				memcpy(before, shards_believed, sizeof(before));
			draw_next(move, allowed);
			/* A snapshot of a transaction with writes of its own is never used. */
			if (is_open[conn] && move->step.sql == HWTS_SQL_SNAPSHOT)
				draw_statement(move, HWTS_SQL_CLOCK, NULL);
			move->stays_open = is_open[conn] = is_open[conn] ||
							   (draw(4) == 0 && move->step.sql != HWTS_SQL_SNAPSHOT);
		}
	}
}

#endif
