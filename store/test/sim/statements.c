/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements that read and write timeouts; tables.h.  store/sql/ says what they mean. */
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Helpers
 */

struct row *sim_find_row(struct act *act, int64_t id, const struct version **version)
{
	EACH_ROW(TIMEOUT, row)
	{
		if (!row->newest || row->newest->n[ID] != id)
			continue;
		*version = sim_see(act, row);
		if (*version)
			return row;
	}
	return NULL;
}

const struct version *sim_find(struct act *act, enum table table, int64_t id, struct row **out)
{
	EACH_ROW(table, row)
	{
		const struct version *is = sim_see(act, row);

		if (!is || is->n[0] != id)
			continue;
		if (out)
			*out = row;
		return is;
	}
	return NULL;
}

static bool is_anothers(const struct act *act, const struct tx *tx)
{
	return tx && tx->commit == 0 && tx != act->tx;
}

int sim_find_unique(struct act *act, enum table table, sim_has_key *has_key, size_t i, struct row **out)
{
	*out = NULL;
	EACH_ROW(table, row)
	{
		int rc = 0;

		if (!row->newest || !has_key(act, row->newest, i))
			continue;
		if (is_anothers(act, row->newest->made) || is_anothers(act, row->newest->gone))
			rc = sim_lock(act, row, true, WAITS);
		if (rc != 0)
			return rc;
		if (row->newest && !row->newest->gone)
			*out = row;
	}
	return 0;
}

/* Locks a row that the statement sees, and returns it as it is then; NULL: no row fits. */
static int claim(struct act *act, int64_t id, is_for *fits, enum if_locked patience, struct row **out)
{
	const struct version *version, *last;
	struct row *row = sim_find_row(act, id, &version);
	int rc;

	*out = NULL;
	if (!row || !fits(act, version))
		return 0;
	rc = sim_lock(act, row, true, patience);
	if (rc != 0)
		return rc == EBUSY ? 0 : rc;
	last = sim_see_last(act, row);
	if (last && (last == version || fits(act, last)))
		*out = row;
	return 0;
}

static int64_t len_of(const struct version *version)
{
	return version->s[DATA] ? (int64_t)version->s[DATA]->len : 0;
}

static void set_error(struct version *version, const char *error)
{
	sim_set_text(version, ERROR, error, error ? strlen(error) : 0);
}

static const struct {
	int is, next;
} numbers_of_next[] = { { DUE, NEXT_DUE },           { BASE, NEXT_BASE },   { PERIOD, NEXT_PERIOD },
			{ PRIORITY, NEXT_PRIORITY }, { GRACE, NEXT_GRACE }, { SPREAD, NEXT_SPREAD } },
  texts_of_next[] = { { DATA, NEXT_DATA }, { SCHEDULE, NEXT_SCHEDULE }, { ZONE, NEXT_ZONE } };

void sim_swap_next(struct version *version)
{
	for (size_t i = 0; i < HWTS_COUNT(numbers_of_next); i++) {
		int64_t is = version->n[numbers_of_next[i].is];

		version->n[numbers_of_next[i].is] = version->n[numbers_of_next[i].next];
		version->n[numbers_of_next[i].next] = is;
	}
	for (size_t i = 0; i < HWTS_COUNT(texts_of_next); i++) {
		struct text *is = version->s[texts_of_next[i].is];

		version->s[texts_of_next[i].is] = version->s[texts_of_next[i].next];
		version->s[texts_of_next[i].next] = is;
	}
}

void sim_drop_next(struct version *version)
{
	for (size_t i = 0; i < HWTS_COUNT(numbers_of_next); i++)
		version->n[numbers_of_next[i].next] = 0;
	for (size_t i = 0; i < HWTS_COUNT(texts_of_next); i++)
		sim_set_text(version, texts_of_next[i].next, NULL, 0);
}

static bool is_unmarked(const struct version *t)
{
	return !t->n[LAST] && t->n[NEXT_BASE] <= 0;
}

static bool is_any(struct act *act, const struct version *version)
{
	(void)act;
	(void)version;
	return true;
}

/*
 * Reading
 */

/* data: how many bytes of the data are returned. */
static void emit_info(struct act *act, const struct version *t, size_t data)
{
	const struct version *kind = sim_find(act, KIND, t->n[KIND_OF], NULL),
			     *shard = sim_find(act, SHARD, t->n[SHARD_OF] < 0 ? -1 - t->n[SHARD_OF] : t->n[SHARD_OF],
					       NULL);
	struct hwts_value values[15] = { { .number = t->n[ID] },
					 { .number = t->n[STATE] },
					 { .number = t->n[ATTEMPT] },
					 { .number = t->n[DUE] },
					 { .number = t->n[PERIOD] },
					 sim_text_value(kind ? kind->s[KIND_NAME] : NULL),
					 sim_text_value(t->s[KEY]),
					 sim_text_value(shard ? shard->s[SHARD_OWNER] : NULL),
					 sim_text_value(t->s[ERROR]),
					 sim_text_value(t->s[GROUP]),
					 { .number = t->n[PRIORITY] },
					 sim_text_value(t->s[SCHEDULE]),
					 sim_text_value(t->s[ZONE]),
					 { .number = len_of(t) },
					 sim_text_value(data > 0 ? t->s[DATA] : NULL) };

	values[14].len = HWTS_MIN(values[14].len, data);
	sim_emit(act, values, HWTS_COUNT(values));
}

static int get(struct act *act)
{
	const struct version *version;

	if (sim_find_row(act, NUMBER_ARG(0), &version))
		emit_info(act, version, (size_t)NUMBER_ARG(1));
	return 0;
}

static int infos(struct act *act)
{
	const struct version *version;

	for (size_t i = 0; i < COUNT_ARG(0); i++)
		if (sim_find_row(act, ITEM_ARG(0, i), &version))
			emit_info(act, version, NUMBER_ARG(1) ? SIZE_MAX : 0);
	return 0;
}

static int find(struct act *act)
{
	EACH_SEEN (act, TIMEOUT, t)
		if (sim_is_in_group(act, t, 0) && sim_is_text(t->s[KEY], TEXT_ARG(3)))
			SIM_EMIT(act, t->n[ID], t->n[STATE]);
	return 0;
}

/* A series that runs, and whose run is not marked as the last. */
static bool goes_on(struct act *act, const struct version *t)
{
	(void)act;
	return t->n[STATE] == 2 && !t->n[LAST] && (t->n[PERIOD] > 0 || t->s[SCHEDULE]);
}

static bool has_more(struct act *act, const struct version *t)
{
	return goes_on(act, t) || t->n[NEXT_BASE];
}

static int states(struct act *act)
{
	const struct version *version;

	for (size_t i = 0; i < COUNT_ARG(0); i++)
		if (sim_find_row(act, ITEM_ARG(0, i), &version))
			SIM_EMIT(act, version->n[ID], version->n[STATE], has_more(act, version));
	return 0;
}

static int pending(struct act *act)
{
	const struct version *t;

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		const struct version *shard;

		if (!sim_find_row(act, ITEM_ARG(0, i), &t) || t->n[STATE] == 3)
			continue;
		shard = sim_shard(act, t->n[SHARD_OF], NULL); /* NULL: a user has damaged it */
		SIM_EMIT(act, t->n[ID], t->n[DUE], shard ? shard->n[SHARD_EPOCH] : 0, t->n[STATE], t->n[ATTEMPT],
			 t->n[EPOCH], t->n[NEXT_BASE] > 0 ? 2 : t->n[LAST], shard ? shard->n[SHARD_RULES] : 0,
			 act->now_us);
	}
	return 0;
}

/*
 * Changes
 */

/* True: does not run, and is in one of the states that are asked for. */
static bool rests_in(const struct version *t, int64_t states)
{
	return t->n[STATE] != 2 && (INT64_C(1) << t->n[STATE] & states) != 0;
}

static bool runs_under(const struct version *t, int64_t epoch)
{
	return t->n[STATE] == 2 && t->n[EPOCH] == epoch;
}

static bool may_cancel(struct act *act, const struct version *t)
{
	return rests_in(t, NUMBER_ARG(2)) || (runs_under(t, NUMBER_ARG(1)) && !t->n[LAST]);
}

static bool may_cancel_all(struct act *act, const struct version *t)
{
	return rests_in(t, NUMBER_ARG(1));
}

static int remove_one(struct act *act, struct row *row)
{
	SIM_EMIT(act, row->newest->n[ID]);
	sim_remove(act, row);
	return 0;
}

/* A cancel of all marks single timeouts, too. */
static bool may_be_last(struct act *act, const struct version *t)
{
	return NUMBER_ARG(1) ? t->n[STATE] == 2 && !t->n[LAST] : goes_on(act, t);
}

static int make_last(struct act *act, struct row *row)
{
	sim_change(act, row)->n[LAST] = 1;
	SIM_EMIT(act, row->newest->n[ID]);
	return 0;
}

static bool is_replaced(struct act *act, const struct version *t)
{
	(void)act;
	return t->n[STATE] == 2 && t->n[NEXT_BASE];
}

static int drop_next(struct act *act, struct row *row)
{
	sim_drop_next(sim_change(act, row));
	SIM_EMIT(act, row->newest->n[ID]);
	return 0;
}

static int refile(struct act *act, struct row *row, int64_t us)
{
	struct version *t = sim_change(act, row);

	if (t->n[NEXT_BASE] < 0 && t->n[ATTEMPT] == (t->n[STATE] == 2)) {
		sim_swap_next(t);
		sim_drop_next(t);
	}
	t->n[DUE] = t->n[BASE] = us;
	t->n[ATTEMPT] = t->n[STATE] == 3 ? 0 : t->n[STATE] == 2 ? t->n[ATTEMPT] - 1 : t->n[ATTEMPT];
	t->n[SHARD_OF] = t->n[SHARD_OF] < 0 ? -1 - t->n[SHARD_OF] : t->n[SHARD_OF];
	t->n[EPOCH] = 0;
	t->n[STATE] = 1;
	t->n[TX] = (int64_t)act->tx->number;
	sim_emit(act,
		 (struct hwts_value[]){ { .number = t->n[ID] },
					{ .number = t->n[SHARD_OF] },
					{ .number = us },
					{ .number = len_of(t) },
					sim_text_value(t->s[GROUP]),
					{ .number = t->n[PRIORITY] } },
		 6);
	return 0;
}

static bool may_reschedule(struct act *act, const struct version *t)
{
	return rests_in(t, NUMBER_ARG(3)) || (runs_under(t, NUMBER_ARG(4)) && is_unmarked(t));
}

static int reschedule(struct act *act, struct row *row)
{
	return refile(act, row, NUMBER_ARG(1) + (NUMBER_ARG(2) ? 0 : act->now_us));
}

static bool may_reschedule_all(struct act *act, const struct version *t)
{
	return rests_in(t, NUMBER_ARG(2));
}

static int reschedule_all(struct act *act, struct row *row)
{
	return refile(act, row, NUMBER_ARG(1));
}

/*
 * Runs
 */

/* FOR SHARE, in the order of ids: the shards that fit. */
static int share_shards(struct act *act, bool (*fits)(const struct act *act, const struct version *shard),
			enum if_locked patience)
{
	struct row *next;
	int64_t last = -1;
	int rc = 0;

	do {
		next = NULL;
		EACH_ROW(SHARD, row)
		{
			const struct version *shard = sim_see(act, row);

			if (fits(act, shard) && shard->n[SHARD_ID] > last &&
			    (!next || shard->n[SHARD_ID] < sim_see(act, next)->n[SHARD_ID]))
				next = row;
		}
		last = next ? sim_see(act, next)->n[SHARD_ID] : last;
		rc = next ? sim_lock(act, next, false, patience) : 0;
	} while (next && (rc == 0 || rc == EBUSY));
	return rc;
}

static bool is_wanted(const struct act *act, const struct version *shard)
{
	return shard && sim_is_among(act, 0, shard->n[SHARD_ID]);
}

/* Locks all shards of a begin. */
static int share_all(struct act *act)
{
	return share_shards(act, is_wanted, WAITS);
}

static bool is_held(const struct act *act, const struct version *shard)
{
	return shard && sim_is_among(act, 1, shard->n[SHARD_ID]) && shard->n[SHARD_EPOCH] == NUMBER_ARG(2) &&
	       shard->n[SHARD_RULES] == NUMBER_ARG(8) && sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(3));
}

static bool has_lock(const struct act *act, const struct row *row)
{
	for (unsigned i = 0; i < row->lock_count; i++)
		if (row->locks[i].tx == act->tx)
			return true;
	return false;
}

/* True: the shard is held by this process, and locked. */
static bool is_ours(struct act *act, int64_t id)
{
	struct row *row;
	const struct version *shard = sim_find(act, SHARD, id, &row);

	return shard && is_held(act, shard) && has_lock(act, row) && is_held(act, sim_see_last(act, row));
}

static bool may_begin(struct act *act, const struct version *t)
{
	int64_t attempt = t->n[ATTEMPT], epoch = t->n[EPOCH];
	bool again = epoch == NUMBER_ARG(2) || (attempt < NUMBER_ARG(6) && attempt < NUMBER_ARG(7));

	if (!is_ours(act, t->n[SHARD_OF]) || t->n[DUE] > act->now_us)
		return false;
	return (t->n[STATE] == 1 && attempt < NUMBER_ARG(6)) ||
	       (t->n[STATE] == 2 && is_unmarked(t) && epoch >= NUMBER_ARG(4) && epoch < NUMBER_ARG(5) && again);
}

static void begin_row(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	t->n[ATTEMPT] += t->n[STATE] == 2 && t->n[EPOCH] == NUMBER_ARG(2) ? 0 : 1;
	if (t->n[STATE] == 2 && t->n[EPOCH] != NUMBER_ARG(2))
		sim_judge_left(t);
	t->n[STATE] = 2;
	t->n[EPOCH] = NUMBER_ARG(2);
	sim_judge_begin(act, t, t->older);
	SIM_EMIT(act, t->n[ID]);
}

static void emit_begun(struct act *act, const struct version *t)
{
	struct hwts_value values[14] = { { .number = t->n[ID] },      { .number = t->n[DUE] },
					 { .number = t->n[BASE] },    { .number = t->n[PERIOD] },
					 { .number = t->n[ATTEMPT] }, sim_text_value(t->s[KEY]),
					 sim_text_value(t->s[DATA]),  { .number = act->now_us },
					 sim_text_value(t->s[GROUP]), sim_text_value(t->s[SCHEDULE]),
					 sim_text_value(t->s[ZONE]),  { .number = t->n[GRACE] },
					 { .number = t->n[SPREAD] },  { .number = t->n[EPOCH] } };

	sim_emit(act, values, HWTS_COUNT(values));
}

static int begun(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		const struct version *t;

		if (sim_find_row(act, ITEM_ARG(0, i), &t) && t->n[STATE] == 2)
			emit_begun(act, t);
	}
	return 0;
}

static void judge_order(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		const struct version *t;

		if (sim_find_row(act, ITEM_ARG(0, i), &t) && t->made == act->tx)
			sim_judge_order(act, t);
	}
}

/*
 * BEGIN_UNLOCKED first locks the rows that no other transaction has locked, even those that it cannot begin.  Shards
 * are locked when a row is compared with them.
 */
static int begin(struct act *act, enum if_locked patience)
{
	const struct version *t;
	bool any = false;
	int rc;

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		struct row *row = sim_find_row(act, ITEM_ARG(0, i), &t);

		any |= row && (patience == WAITS || sim_lock(act, row, true, SKIPS) == 0);
	}
	rc = any ? share_shards(act, is_held, patience) : 0;

	for (size_t i = 0; i < COUNT_ARG(0) && rc == 0; i++) {
		struct row *row;

		rc = claim(act, ITEM_ARG(0, i), may_begin, patience, &row);
		if (rc == 0 && row && sim_is_poisoned(row, false))
			return EIO;
		sim_server.vain += rc == 0 && !row;
		if (rc == 0 && row)
			begin_row(act, row);
	}
	if (rc == 0)
		judge_order(act);
	return rc;
}

static int begin_waiting(struct act *act)
{
	return begin(act, WAITS);
}

static int begin_unlocked(struct act *act)
{
	return begin(act, SKIPS);
}

static bool is_left(struct act *act, const struct version *t)
{
	return runs_under(t, NUMBER_ARG(1)) && is_unmarked(t);
}

static int undo_begin(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	t->n[STATE] = 1;
	t->n[EPOCH] = 0;
	t->n[ATTEMPT]--;
	return 0;
}

static int inherit(struct act *act, struct row *row)
{
	struct version *t;
	int64_t then = act->now_us + NUMBER_ARG(2), next = INT64_MAX;

	sim_judge_left(row->newest);
	t = sim_change(act, row);
	if (t->n[PERIOD] > 0)
		next = t->n[BASE] + ((act->now_us - t->n[BASE]) / t->n[PERIOD] + 1) * t->n[PERIOD];
	t->n[STATE] = 1;
	t->n[EPOCH] = 0;
	t->n[DUE] = t->n[DUE] == 0 && t->s[SCHEDULE] ? 0 : HWTS_MIN(next, then);
	t->n[TX] = (int64_t)act->tx->number;
	set_error(t, HWTS_DIED);
	SIM_EMIT(act, t->n[ID], t->n[DUE]);
	return 0;
}

/*
 * Ends
 */

static bool runs(struct act *act, const struct version *t)
{
	return runs_under(t, NUMBER_ARG(1));
}

static bool runs_on(struct act *act, const struct version *t)
{
	return runs(act, t) && is_unmarked(t);
}

static bool runs_as_it_was(struct act *act, const struct version *t)
{
	return runs_on(act, t) && !(t->n[NEXT_BASE] && NUMBER_ARG(8));
}

static bool runs_alone(struct act *act, const struct version *t)
{
	return runs(act, t) && t->n[NEXT_BASE] <= 0;
}

static bool runs_replaced(struct act *act, const struct version *t)
{
	return runs(act, t) && (t->n[NEXT_BASE] > 0 || (t->n[NEXT_BASE] < 0 && NUMBER_ARG(2)));
}

static bool runs_last(struct act *act, const struct version *t)
{
	return runs_alone(act, t) && t->n[LAST];
}

static int emit_id(struct act *act, struct row *row)
{
	SIM_EMIT(act, row->newest->n[ID]);
	return 0;
}

static int end_done(struct act *act, struct row *row)
{
	return sim_is_poisoned(row, true) ? EIO : remove_one(act, row);
}

static int end_again(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	t->n[STATE] = 1;
	t->n[EPOCH] = 0;
	t->n[DUE] = !NUMBER_ARG(3) ? NUMBER_ARG(2) : HWTS_MIN(act->now_us + NUMBER_ARG(2), NUMBER_ARG(4));
	t->n[BASE] = NUMBER_ARG(5);
	t->n[ATTEMPT] = NUMBER_ARG(6);
	t->n[TX] = (int64_t)act->tx->number;
	if (NUMBER_ARG(9) && t->n[NEXT_BASE] < 0) {
		const struct text *data = t->s[NEXT_DATA];

		sim_set_text(t, DATA, data ? data->bytes : NULL, data ? data->len : 0);
		t->n[PRIORITY] = t->n[NEXT_PRIORITY];
	}
	if (act->step->args[7].bytes)
		sim_set_text(t, ERROR, act->step->args[7].len ? act->step->args[7].bytes : NULL,
			     act->step->args[7].len);
	SIM_EMIT(act, t->n[ID], t->n[DUE]);
	return 0;
}

static int end_fail(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	t->n[STATE] = 3;
	t->n[ATTEMPT] -= NUMBER_ARG(3);
	if (t->n[NEXT_BASE] < 0) {
		t->n[NEXT_DUE] = t->n[DUE];
		t->n[NEXT_BASE] = t->n[BASE];
		sim_swap_next(t);
	}
	sim_drop_next(t);
	t->n[SHARD_OF] = -1 - t->n[SHARD_OF];
	sim_set_text(t, ERROR, act->step->args[2].bytes, act->step->args[2].len);
	SIM_EMIT(act, t->n[ID]);
	return 0;
}

/* For a series whose settings were kept. */
static void find_kept_time(struct version *t, int64_t now_us)
{
	int64_t base_us = -1 - t->n[NEXT_BASE], period_us = t->n[NEXT_PERIOD];

	t->n[NEXT_BASE] = base_us;
	if (t->n[NEXT_DUE] > now_us)
		return;
	t->n[NEXT_DUE] = 0;
	t->n[NEXT_BASE] = now_us;
	if (!t->s[NEXT_SCHEDULE] && period_us > 0)
		t->n[NEXT_DUE] = t->n[NEXT_BASE] = base_us + ((now_us - base_us) / period_us + 1) * period_us;
}

static int end_next(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	if (t->n[NEXT_BASE] < 0)
		find_kept_time(t, NUMBER_ARG(3));
	sim_swap_next(t);
	sim_drop_next(t);
	t->n[STATE] = 1;
	t->n[EPOCH] = t->n[ATTEMPT] = t->n[LAST] = 0;
	t->n[TX] = (int64_t)act->tx->number;
	set_error(t, NULL);
	SIM_EMIT(act, t->n[ID], t->n[DUE], len_of(t), t->n[PRIORITY]);
	return 0;
}

/*
 * A series that a program declares again
 */

static bool is_bytes(const struct text *text, const struct hwts_value *value)
{
	return (text ? text->len : 0) == value->len &&
	       (value->len == 0 || memcmp(text->bytes, value->bytes, value->len) == 0);
}

static int keep_read(struct act *act)
{
	EACH_SEEN (act, TIMEOUT, t) {
		bool next = t->n[NEXT_BASE] != 0;
		bool same_line = is_bytes(t->s[next ? NEXT_SCHEDULE : SCHEDULE], TEXT_ARG(6)) &&
				 is_bytes(t->s[next ? NEXT_ZONE : ZONE], TEXT_ARG(7));
		bool same = same_line && t->n[next ? NEXT_PERIOD : PERIOD] == NUMBER_ARG(4) &&
			    t->n[next ? NEXT_PRIORITY : PRIORITY] == NUMBER_ARG(5) &&
			    t->n[next ? NEXT_GRACE : GRACE] == NUMBER_ARG(8) &&
			    t->n[next ? NEXT_SPREAD : SPREAD] == NUMBER_ARG(9) &&
			    is_bytes(t->s[next ? NEXT_DATA : DATA], TEXT_ARG(10));
		int64_t numbers[] = { t->n[ID],
				      t->n[STATE],
				      t->n[DUE],
				      t->n[BASE],
				      t->n[ATTEMPT],
				      t->n[NEXT_DUE],
				      t->n[NEXT_BASE],
				      t->n[LAST],
				      next,
				      t->n[DUE] > 0 || !t->s[SCHEDULE],
				      t->n[next ? NEXT_PERIOD : PERIOD],
				      t->s[next ? NEXT_SCHEDULE : SCHEDULE] != NULL,
				      same_line,
				      same,
				      act->now_us };
		struct hwts_value values[HWTS_COUNT(numbers)] = { 0 };

		for (size_t i = 0; i < HWTS_COUNT(numbers); i++)
			values[i].number = numbers[i];
		if (sim_is_in_group(act, t, 0) && sim_is_text(t->s[KEY], TEXT_ARG(3)))
			sim_emit(act, values, HWTS_COUNT(values));
	}
	return 0;
}

static bool is_at_rest(struct act *act, const struct version *t)
{
	(void)act;
	return t->n[STATE] != 2;
}

static bool waits(struct act *act, const struct version *t)
{
	(void)act;
	return t->n[STATE] != 3;
}

/* The settings of a put that keeps the due time. */
static void fill_next(struct act *act, struct version *t)
{
	t->n[NEXT_DUE] = NUMBER_ARG(1);
	t->n[NEXT_BASE] = NUMBER_ARG(2);
	t->n[NEXT_PERIOD] = NUMBER_ARG(3);
	t->n[NEXT_PRIORITY] = NUMBER_ARG(4);
	sim_set_text(t, NEXT_SCHEDULE, TEXT_ARG(5)->bytes, TEXT_ARG(5)->len);
	sim_set_text(t, NEXT_ZONE, TEXT_ARG(6)->bytes, TEXT_ARG(6)->len);
	t->n[NEXT_GRACE] = NUMBER_ARG(7);
	t->n[NEXT_SPREAD] = NUMBER_ARG(8);
	sim_set_text(t, NEXT_DATA, TEXT_ARG(9)->bytes, TEXT_ARG(9)->len);
}

static int emit_kept(struct act *act, const struct version *t)
{
	SIM_EMIT(act, t->n[ID], t->n[DUE], t->n[SHARD_OF], t->n[STATE]);
	return 0;
}

static int keep_now(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	fill_next(act, t);
	sim_swap_next(t);
	sim_drop_next(t);
	if (t->n[STATE] == 3) {
		t->n[ATTEMPT] = 0;
		set_error(t, NULL);
	}
	t->n[SHARD_OF] = t->n[SHARD_OF] < 0 ? -1 - t->n[SHARD_OF] : t->n[SHARD_OF];
	t->n[EPOCH] = 0;
	t->n[STATE] = 1;
	t->n[TX] = (int64_t)act->tx->number;
	return emit_kept(act, t);
}

static int keep_next(struct act *act, struct row *row)
{
	struct version *t = sim_change(act, row);

	fill_next(act, t);
	if (NUMBER_ARG(10)) {
		sim_set_text(t, DATA, TEXT_ARG(9)->bytes, TEXT_ARG(9)->len);
		t->n[PRIORITY] = NUMBER_ARG(4);
	}
	return emit_kept(act, t);
}

/* Divides by zero if the row is no longer this run's. */
static int close_one(struct act *act)
{
	struct row *row;
	int rc = claim(act, NUMBER_ARG(0), runs, WAITS, &row);

	if (rc == 0 && !row)
		return ESTALE;
	if (rc == 0)
		SIM_EMIT(act, 1);
	return rc;
}

/* Statements that change one row, or each of several: which row fits, and how it changes. */
static const struct change {
	is_for *fits;
	int (*apply)(struct act *act, struct row *row);
	bool several;
	enum if_locked patience;
} changes[HWTS_SQLS] = {
	[HWTS_SQL_CANCEL] = { .fits = may_cancel, .apply = remove_one },
	[HWTS_SQL_CANCEL_ALL] = { .fits = may_cancel_all, .apply = remove_one, .several = true, .patience = SKIPS },
	[HWTS_SQL_CANCEL_LAST] = { .fits = may_be_last, .apply = make_last },
	[HWTS_SQL_CANCEL_NEXT] = { .fits = is_replaced, .apply = drop_next },
	[HWTS_SQL_RESCHEDULE] = { .fits = may_reschedule, .apply = reschedule },
	[HWTS_SQL_RESCHEDULE_ALL] = { .fits = may_reschedule_all,
				      .apply = reschedule_all,
				      .several = true,
				      .patience = SKIPS },
	[HWTS_SQL_BEGIN_UNDO] = { .fits = runs_on, .apply = undo_begin, .several = true },
	[HWTS_SQL_INHERIT] = { .fits = is_left, .apply = inherit },
	[HWTS_SQL_END_LOCK] = { .fits = is_any, .apply = emit_id, .several = true, .patience = SKIPS },
	[HWTS_SQL_END_DONE] = { .fits = runs_on, .apply = end_done, .several = true },
	[HWTS_SQL_END_AGAIN] = { .fits = runs_as_it_was, .apply = end_again },
	[HWTS_SQL_END_FAIL] = { .fits = runs_on, .apply = end_fail },
	[HWTS_SQL_END_LAST] = { .fits = runs_last, .apply = remove_one },
	[HWTS_SQL_END_NEXT] = { .fits = runs_replaced, .apply = end_next },
	[HWTS_SQL_KEEP_LOCK] = { .fits = is_any, .apply = emit_id },
	[HWTS_SQL_KEEP_NOW] = { .fits = is_at_rest, .apply = keep_now },
	[HWTS_SQL_KEEP_NEXT] = { .fits = waits, .apply = keep_next },
};

int sim_change_rows(struct act *act)
{
	const struct change *change = &changes[act->step->sql];
	size_t n = change->several ? COUNT_ARG(0) : 1;
	int rc = 0;

	SIM_CHECK(change->fits != NULL);
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct row *row;

		rc = claim(act, change->several ? ITEM_ARG(0, i) : NUMBER_ARG(0), change->fits, change->patience, &row);
		if (rc == 0 && row)
			rc = change->apply(act, row);
	}
	return rc;
}

sim_statement *const sim_timeout_statements[HWTS_SQLS] = {
	[HWTS_SQL_GET] = get,
	[HWTS_SQL_FIND] = find,
	[HWTS_SQL_INFOS] = infos,
	[HWTS_SQL_STATES] = states,
	[HWTS_SQL_SHARE] = share_all,
	[HWTS_SQL_BEGIN] = begin_waiting,
	[HWTS_SQL_BEGIN_UNLOCKED] = begin_unlocked,
	[HWTS_SQL_BEGUN] = begun,
	[HWTS_SQL_PENDING] = pending,
	[HWTS_SQL_CLOSE] = close_one,
	[HWTS_SQL_KEEP_READ] = keep_read,
};
