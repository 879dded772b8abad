/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements that put timeouts, look for them and tell of them; tables.h.  store/sql/ says what they mean. */
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Looks
 */

struct found {
	const struct version *t[1024];
	size_t n;
};

static int by_due(const void *left, const void *right)
{
	const struct version *a = *(const struct version *const *)left, *b = *(const struct version *const *)right;

	if (a->n[DUE] != b->n[DUE])
		return a->n[DUE] < b->n[DUE] ? -1 : 1;
	return (a->n[ID] > b->n[ID]) - (a->n[ID] < b->n[ID]);
}

static void add_found(struct found *found, const struct version *t)
{
	if (found->n == HWTS_COUNT(found->t))
		abort();
	found->t[found->n++] = t;
}

static void sort_found(struct found *found)
{
	if (found->n > 0)
		qsort(found->t, found->n, sizeof(found->t[0]), by_due);
}

static bool is_beyond(const struct version *t, int64_t due_us, int64_t id)
{
	return t->n[DUE] > due_us || (t->n[DUE] == due_us && t->n[ID] > id);
}

/* The rows of a part of the index, with dead versions as long as some snapshot needs them. */
static void read_index(struct act *act, struct found *found, int64_t shard, int64_t from_us, int64_t to_us)
{
	found->n = 0;
	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = row->newest;

		/* Nor are its older versions in the index there. */
		if (!t || (t->n[SHARD_OF] != shard && t->n[SHARD_OF] != -1 - shard))
			continue;
		for (; t; t = t->older)
			act->read += t->n[SHARD_OF] == shard && t->n[DUE] >= from_us && t->n[DUE] < to_us;
		t = sim_see(act, row);
		if (!t || t->n[SHARD_OF] != shard || t->n[DUE] < from_us || t->n[DUE] >= to_us)
			continue;
		add_found(found, t);
	}
	sort_found(found);
}

void sim_emit_due(struct act *act, int64_t part, const struct version *t)
{
	struct hwts_value values[] = { { .number = part },
				       { .number = t->n[ID] },
				       { .number = t->n[DUE] },
				       { .number = t->n[SHARD_OF] },
				       { .number = t->s[DATA] ? (int64_t)t->s[DATA]->len : 0 },
				       { .number = t->n[EPOCH] },
				       sim_text_value(t->s[GROUP]),
				       { .number = t->n[PRIORITY] } };

	act->is_unreadable |= sim_is_unreadable(t);
	sim_emit(act, values, HWTS_COUNT(values));
}

static int look(struct act *act)
{
	struct found found;

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		int64_t left = NUMBER_ARG(5);

		read_index(act, &found, ITEM_ARG(0, i), ITEM_ARG(3, i), ITEM_ARG(2, i));
		for (size_t j = 0; j < found.n && left > 0; j++) {
			const struct version *t = found.t[j];
			bool may = t->n[STATE] == 1 || (t->n[STATE] == 2 && t->n[EPOCH] < ITEM_ARG(1, i));

			if (!may || !is_beyond(t, ITEM_ARG(3, i), ITEM_ARG(4, i)))
				continue;
			sim_emit_due(act, 1, t);
			left--;
		}
	}
	return 0;
}

static int snapshot(struct act *act)
{
	char text[1024];
	uint64_t least = sim_server.next_tx;
	struct hwts_value value;
	int at;

	for (unsigned i = 0; i < sim_server.active_count; i++)
		if (sim_server.active[i] != act->tx)
			least = HWTS_MIN(least, sim_server.active[i]->number);
	at = snprintf(text, sizeof(text), "%llu:%llu:", (unsigned long long)least,
		      (unsigned long long)sim_server.next_tx);
	for (unsigned i = 0; i < sim_server.active_count; i++)
		if (sim_server.active[i] != act->tx)
			at += snprintf(text + at, sizeof(text) - (size_t)at, "%llu,",
				       (unsigned long long)sim_server.active[i]->number);
	value = (struct hwts_value)HWTS_BYTES(text, (size_t)at);
	sim_emit(act, &value, 1);
	return 0;
}

/* True: the transaction was over when the snapshot was made.  *least: the first transaction that was not. */
static bool was_over(const char *text, int64_t tx, int64_t *least)
{
	char *end;
	int64_t next;

	*least = strtoll(text, &end, 10);
	next = strtoll(end + 1, &end, 10);
	if (tx < *least)
		return true;
	if (tx >= next)
		return false;
	for (end++; *end; end++)
		if (strtoll(end, &end, 10) == tx)
			return false;
	return true;
}

static bool is_late(const struct act *act, const struct version *t, size_t i)
{
	int64_t least;

	return !is_beyond(t, ITEM_ARG(2, i), ITEM_ARG(3, i)) && !was_over(act->step->args[5].bytes, t->n[TX], &least) &&
	       t->n[TX] >= least;
}

static int sweep(struct act *act)
{
	struct found found;

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		int64_t left = NUMBER_ARG(4), epoch = ITEM_ARG(1, i);

		read_index(act, &found, ITEM_ARG(0, i), NUMBER_ARG(7),
			   HWTS_MAX(NUMBER_ARG(6), HWTS_MIN(ITEM_ARG(2, i), INT64_MAX - 1) + 1));
		for (size_t j = 0; j < found.n; j++) {
			const struct version *t = found.t[j];
			bool may = t->n[STATE] == 1 || (t->n[STATE] == 2 && t->n[EPOCH] < epoch);

			if (may && is_late(act, t, i))
				sim_emit_due(act, 2, t);
		}
		read_index(act, &found, ITEM_ARG(0, i), ITEM_ARG(8, i), NUMBER_ARG(6));
		for (size_t j = 0; j < found.n && left > 0; j++) {
			const struct version *t = found.t[j];
			bool may = t->n[STATE] == 1 || (t->n[STATE] == 2 && t->n[EPOCH] < epoch);
			bool held = t->n[STATE] == 2 && t->n[EPOCH] == epoch;

			if (!(may || held) || !is_beyond(t, ITEM_ARG(8, i), ITEM_ARG(9, i)))
				continue;
			sim_emit_due(act, may ? 3 : 4, t);
			left--;
		}
	}
	return 0;
}

static bool is_listed(const struct version *t, int64_t states, int64_t to_us, int64_t after_us, int64_t after)
{
	return (INT64_C(1) << t->n[STATE] & states) != 0 && t->n[DUE] < to_us && is_beyond(t, after_us, after);
}

static int places(struct act *act)
{
	struct found found;

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		int64_t shard = ITEM_ARG(0, i), remaining = NUMBER_ARG(4), to_us = NUMBER_ARG(7);

		if (!NUMBER_ARG(5) && shard >= 0)
			to_us = HWTS_MIN(to_us, act->now_us + 60000000);
		read_index(act, &found, shard, NUMBER_ARG(1), to_us);
		for (size_t j = 0; j < found.n && remaining > 0; j++) {
			const struct version *t = found.t[j];

			if (!is_listed(t, NUMBER_ARG(3), to_us, NUMBER_ARG(1), NUMBER_ARG(2)) ||
			    !(NUMBER_ARG(6) || t->s[GROUP]->len == 0))
				continue;
			SIM_EMIT(act, t->n[SHARD_OF], t->n[DUE], t->n[ID]);
			remaining--;
		}
	}
	return 0;
}

/* All rows of a group.  Rows without a group are in no index by group. */
static void find_group(struct act *act, struct found *found, int at)
{
	found->n = 0;
	EACH_SEEN (act, TIMEOUT, t)
		if (t->s[GROUP]->len > 0 && sim_is_in_group(act, t, at))
			add_found(found, t);
	sort_found(found);
}

static int group_places(struct act *act)
{
	struct found found;
	int64_t remaining = NUMBER_ARG(7);

	find_group(act, &found, 0);
	for (size_t j = 0; j < found.n && remaining > 0; j++) {
		const struct version *t = found.t[j];

		if (!is_listed(t, NUMBER_ARG(6), NUMBER_ARG(5), NUMBER_ARG(3), NUMBER_ARG(4)))
			continue;
		SIM_EMIT(act, 0, t->n[DUE], t->n[ID]);
		remaining--;
	}
	return 0;
}

/* Rows of a group, or of a shard without a group, that the window has not kept. */
static void emit_rest(struct act *act, struct found *found, size_t from, int64_t priority, int64_t most)
{
	int64_t last_us = NUMBER_ARG(from + 2), last_id = NUMBER_ARG(from + 3);

	sort_found(found);
	for (size_t i = 0; i < found->n && most > 0; i++) {
		const struct version *t = found->t[i];

		if (t->n[STATE] != 1 || t->n[PRIORITY] != priority || is_beyond(t, last_us, last_id) ||
		    !is_beyond(t, NUMBER_ARG(from), NUMBER_ARG(from + 1)))
			continue;
		sim_emit_due(act, 1, t);
		most--;
	}
}

static int look_group(struct act *act)
{
	struct found found;

	find_group(act, &found, 0);
	emit_rest(act, &found, 3, NUMBER_ARG(7), NUMBER_ARG(8));
	return 0;
}

static int look_no_group(struct act *act)
{
	struct found found = { .n = 0 };

	EACH_SEEN (act, TIMEOUT, t)
		if (t->n[SHARD_OF] == NUMBER_ARG(0) && t->s[GROUP]->len == 0)
			add_found(&found, t);
	emit_rest(act, &found, 1, NUMBER_ARG(5), NUMBER_ARG(6));
	return 0;
}

/* Rows of groups that run under an older epoch. */
static int rules_run(struct act *act)
{
	struct found found;

	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		int64_t remaining = NUMBER_ARG(4);

		read_index(act, &found, ITEM_ARG(0, i), NUMBER_ARG(2), act->now_us + 60000000);
		for (size_t j = 0; j < found.n && remaining > 0; j++) {
			const struct version *t = found.t[j];

			if (t->n[STATE] != 2 || t->n[EPOCH] >= ITEM_ARG(1, i) || t->s[GROUP]->len == 0 ||
			    !is_beyond(t, NUMBER_ARG(2), NUMBER_ARG(3)))
				continue;
			sim_emit_due(act, 1, t);
			remaining--;
		}
	}
	return 0;
}

/*
 * By the index alone
 */

static int emit_next(struct act *act, const struct found *found)
{
	for (size_t i = 0; i < found->n; i++)
		if (is_beyond(found->t[i], NUMBER_ARG(0), NUMBER_ARG(1))) {
			SIM_EMIT(act, found->t[i]->n[DUE], found->t[i]->n[ID]);
			return 0;
		}
	return 0;
}

static int look_next(struct act *act)
{
	struct found found;

	read_index(act, &found, NUMBER_ARG(2), NUMBER_ARG(0), INT64_MAX);
	return emit_next(act, &found);
}

static int look_next_in(struct act *act)
{
	struct found found;

	find_group(act, &found, 2);
	return emit_next(act, &found);
}

/*
 * News
 */

static int tell(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		const struct version *t, *shard, *kind;
		struct hwts_due due;

		if (!sim_find_row(act, ITEM_ARG(0, i), &t) || t->n[STATE] != 1)
			continue;
		shard = sim_shard(act, t->n[SHARD_OF], NULL);
		kind = sim_find(act, KIND, t->n[KIND_OF], NULL);
		if (!shard || !kind || !shard->s[SHARD_OWNER] ||
		    (!NUMBER_ARG(2) && sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(1))) ||
		    t->n[DUE] >= act->now_us + kind->n[KIND_HORIZON] + HWTS_S_US)
			continue;
		due = (struct hwts_due){ .id = t->n[ID],
					 .due_us = t->n[DUE],
					 .shard = (int32_t)t->n[SHARD_OF],
					 .len = t->s[DATA] ? (uint32_t)t->s[DATA]->len : 0 };
		hwts_due_set(&due, t->s[GROUP]->bytes, t->s[GROUP]->len, t->n[PRIORITY]);
		sim_add_news(act->tx, due.shard, &due);
	}
	return 0;
}

/* The due time is read; what else the client has sent of a row is believed. */
static int tell_put(struct act *act)
{
	for (size_t i = 0; i < COUNT_ARG(0); i++) {
		const struct version *t, *shard = sim_shard(act, ITEM_ARG(1, i), NULL);
		const struct hwts_value *group = (const struct hwts_value *)act->step->args[5].bytes + i;
		struct hwts_due due;

		if (!sim_find_row(act, ITEM_ARG(0, i), &t) || !shard || !shard->s[SHARD_OWNER] ||
		    sim_is_text(shard->s[SHARD_OWNER], TEXT_ARG(7)) ||
		    t->n[DUE] >= act->now_us + NUMBER_ARG(8) + HWTS_S_US)
			continue;
		due = (struct hwts_due){ .id = ITEM_ARG(0, i),
					 .due_us = t->n[DUE],
					 .shard = (int32_t)ITEM_ARG(1, i),
					 .len = (uint32_t)ITEM_ARG(6, i) };
		hwts_due_set(&due, group->bytes, group->len, ITEM_ARG(4, i));
		sim_add_news(act->tx, due.shard, &due);
	}
	return 0;
}

/*
 * Puts
 */

/*
 * Statements that replace, revive, or have a schedule, a grace or a spread: their parameters are no arrays, and there
 * are more of them.
 */
static bool is_alone(const struct act *act)
{
	return hwts_statements[act->step->sql].types[0] == 'i';
}

static bool is_array(const struct act *act, int arg)
{
	return hwts_statements[act->step->sql].types[arg] <= 'Z';
}

static int64_t item(const struct act *act, int arg, size_t i)
{
	return is_array(act, arg) ? ITEM_ARG(arg, i) : NUMBER_ARG(arg);
}

static const struct hwts_value *value_at(const struct act *act, int arg, size_t i)
{
	const struct hwts_value *value = &act->step->args[arg];

	return is_array(act, arg) ? (const struct hwts_value *)value->bytes + i : value;
}

static void emit_put(struct act *act, const struct version *t)
{
	SIM_EMIT(act, t->n[ID], t->n[DUE], t->n[SHARD_OF], t->n[STATE]);
}

static void fill(struct act *act, struct version *t, size_t i)
{
	int64_t due_us = item(act, 4, i) ? item(act, 3, i) : act->now_us + item(act, 3, i);
	bool alone = is_alone(act);

	t->n[BASE] = due_us;
	t->n[DUE] = due_us + (alone ? NUMBER_ARG(10) : 0);
	t->n[GRACE] = alone ? NUMBER_ARG(13) : 0;
	t->n[SPREAD] = alone ? NUMBER_ARG(14) : 0;
	t->n[PERIOD] = item(act, 5, i);
	t->n[TX] = (int64_t)act->tx->number;
	t->n[PRIORITY] = item(act, 6, i);
	sim_set_text(t, DATA, value_at(act, 9, i)->bytes, value_at(act, 9, i)->len);
	sim_set_text(t, SCHEDULE, alone ? TEXT_ARG(11)->bytes : NULL, TEXT_ARG(11)->len);
	sim_set_text(t, ZONE, alone ? TEXT_ARG(12)->bytes : NULL, TEXT_ARG(12)->len);
}

static void insert(struct act *act, size_t i)
{
	struct version *t = sim_insert(act, TIMEOUT);

	t->n[ID] = item(act, 0, i);
	t->n[KIND_OF] = item(act, 1, i);
	t->n[SHARD_OF] = item(act, 2, i);
	t->n[STATE] = 1;
	sim_set_text(t, GROUP, value_at(act, 7, i)->bytes, value_at(act, 7, i)->len);
	sim_set_text(t, KEY, value_at(act, 8, i)->bytes, value_at(act, 8, i)->len);
	fill(act, t, i);
	if (act->step->sql != HWTS_SQL_PUT)
		emit_put(act, t);
}

static bool has_key(const struct act *act, const struct version *t, size_t i)
{
	SIM_CHECK(t->n[ID] != item(act, 0, i));
	return (t->n[ID] & (HWTS_BUCKETS - 1)) == (item(act, 0, i) & (HWTS_BUCKETS - 1)) &&
	       t->n[KIND_OF] == item(act, 1, i) && sim_is_text(t->s[GROUP], value_at(act, 7, i)) &&
	       sim_is_text(t->s[KEY], value_at(act, 8, i));
}

enum conflict { FAILS, KEEPS, REPLACES, REVIVES };

static int change_put(struct act *act, struct row *row, size_t i, enum conflict conflict)
{
	int rc = sim_lock(act, row, true, WAITS);
	struct version *t;

	if (rc != 0 || !sim_see_last(act, row) || (conflict == REVIVES && row->newest->n[STATE] != 3))
		return rc;
	act->is_unreadable |= sim_is_unreadable(row->newest);
	t = sim_change(act, row);
	if (t->n[STATE] == 2) {
		sim_swap_next(t);
		fill(act, t, i);
		sim_swap_next(t);
	} else {
		fill(act, t, i);
		sim_drop_next(t);
		t->n[STATE] = 1;
		t->n[EPOCH] = t->n[ATTEMPT] = 0;
		t->n[SHARD_OF] = t->n[SHARD_OF] < 0 ? -1 - t->n[SHARD_OF] : t->n[SHARD_OF];
		sim_set_text(t, ERROR, NULL, 0);
	}
	emit_put(act, t);
	return 0;
}

static int put(struct act *act)
{
	static const enum conflict conflicts[HWTS_SQLS] = {
		[HWTS_SQL_PUT_KEYED] = KEEPS,
		[HWTS_SQL_PUT_SERIES] = KEEPS,
		[HWTS_SQL_PUT_REPLACE] = REPLACES,
		[HWTS_SQL_PUT_REVIVE] = REVIVES,
	};
	enum conflict conflict = conflicts[act->step->sql];
	size_t count = is_alone(act) ? 1 : COUNT_ARG(0);

	for (size_t i = 0; i < count; i++) {
		struct row *row = NULL;
		int rc = value_at(act, 8, i)->bytes ? sim_find_unique(act, TIMEOUT, has_key, i, &row) : 0;

		if (rc != 0)
			return rc;
		if (row && conflict == FAILS)
			return EIO;
		if (row && conflict != KEEPS)
			rc = change_put(act, row, i, conflict);
		else if (!row)
			insert(act, i);
		if (rc != 0)
			return rc;
	}
	if (act->step->sql == HWTS_SQL_PUT)
		SIM_EMIT(act, count > 0 ? ITEM_ARG(0, 0) : 0, act->now_us, 0, (int64_t)count);
	return 0;
}

sim_statement *const sim_put_statements[HWTS_SQLS] = {
	[HWTS_SQL_PLACES] = places,
	[HWTS_SQL_GROUP_PLACES] = group_places,
	[HWTS_SQL_TELL] = tell,
	[HWTS_SQL_TELL_PUT] = tell_put,
	[HWTS_SQL_SNAPSHOT] = snapshot,
	[HWTS_SQL_LOOK] = look,
	[HWTS_SQL_LOOK_GROUP] = look_group,
	[HWTS_SQL_LOOK_NO_GROUP] = look_no_group,
	[HWTS_SQL_LOOK_NEXT] = look_next,
	[HWTS_SQL_LOOK_NEXT_IN] = look_next_in,
	[HWTS_SQL_SWEEP] = sweep,
	[HWTS_SQL_RULES_RUN] = rules_run,
	[HWTS_SQL_PUT] = put,
	[HWTS_SQL_PUT_KEYED] = put,
	[HWTS_SQL_PUT_REPLACE] = put,
	[HWTS_SQL_PUT_REVIVE] = put,
	[HWTS_SQL_PUT_SERIES] = put,
};

/*
 * One statement
 */

int sim_execute(struct tx *tx, const struct hwts_step *step, struct output *output, int64_t *took_ns)
{
	static sim_statement *const *const tables[] = { sim_timeout_statements, sim_share_statements,
							sim_put_statements, sim_rules_statements };
	sim_statement *statement = NULL;
	struct act act = { .tx = tx, .sees = sim_server.commits, .step = step, .output = output };
	int rc;

	for (size_t i = 0; i < HWTS_COUNT(tables) && !statement; i++)
		statement = tables[i][step->sql];
	act.now_us = sim_server_us();
	sim_server.executing++;
	rc = statement ? statement(&act) : sim_change_rows(&act);
	if (rc == 0 && act.is_unreadable)
		rc = EIO;
	sim_server.executing--;
	*took_ns += (int64_t)act.read * sim_server.price_ns + (int64_t)act.rules * sim_server.rule_ns;
	sim_server.read += act.read;
	return rc;
}

void sim_emit_numbers(struct act *act, const int64_t *numbers, size_t n)
{
	struct hwts_value values[HWTS_COLUMNS];

	for (size_t i = 0; i < n; i++)
		values[i] = (struct hwts_value){ .number = numbers[i] };
	sim_emit(act, values, n);
}

void sim_emit(struct act *act, const struct hwts_value *values, size_t n)
{
	size_t size = sizeof(struct output_row);
	struct output_row *row;
	char *behind;

	if (!act->step->each)
		return;
	for (size_t i = 0; i < n; i++) {
		size += values[i].bytes ? values[i].len + 1 : 0;
		act->output->bytes += values[i].bytes ? values[i].len : sizeof(values[i].number);
	}
	row = calloc(1, size);
	row->step = act->step;
	behind = (char *)(row + 1);
	for (size_t i = 0; i < n; i++) {
		row->values[i] = values[i];
		if (!values[i].bytes)
			continue;
		row->values[i].bytes = memcpy(behind, values[i].bytes, values[i].len);
		behind += values[i].len + 1;
	}
	*act->output->end = row;
	act->output->end = &row->next;
}

int sim_hand_out(struct output *output, bool wanted)
{
	int rc = 0;

	for (struct output_row *row = output->first, *next; row; row = next) {
		next = row->next;
		if (wanted && rc == 0)
			rc = row->step->each(row->step->ctx, row->values);
		free(row);
	}
	output->first = NULL;
	output->end = &output->first;
	return rc;
}
