/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begins.
 *
 * A begin locks the row of each shard FOR SHARE, in the order of shards.  A take updates that row, so no begin under an
 * old epoch commits after the take.  On SQLite both are in the one write transaction.  One statement begins the rows of
 * all shards under one epoch.
 *
 * A begin answers with ids alone.  A server that sends more than the buffers hold waits for its client, perhaps for one
 * that stands still, and holds the locks of the transaction meanwhile.  So the data of the rows is read after the
 * commit.
 */
#include "rows/rows.h"

#include <stdlib.h>

/* The rows of one statement, by id: under one epoch, with the same rules and the same limits of attempts. */
struct group {
	struct hwts_want **wants;
	size_t n;
	bool again; /* begin also rows that run under this epoch */
};

static int by_statement(const struct hwts_want *a, const struct hwts_want *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	if (a->rules != b->rules)
		return a->rules < b->rules ? -1 : 1;
	if (a->max_attempts != b->max_attempts)
		return a->max_attempts < b->max_attempts ? -1 : 1;
	return a->beyond != b->beyond ? a->beyond - b->beyond : a->last - b->last;
}

static int by_group(const void *left, const void *right)
{
	const struct hwts_want *a = *(struct hwts_want *const *)left, *b = *(struct hwts_want *const *)right;
	int differ = by_statement(a, b);

	return differ ? differ : (a->id > b->id) - (a->id < b->id);
}

static int by_id(const void *left, const void *right)
{
	const struct hwts_want *a = *(struct hwts_want *const *)left, *b = *(struct hwts_want *const *)right;

	return (a->id > b->id) - (a->id < b->id);
}

/* The want with this id in the group; NULL: there is none. */
static struct hwts_want *want_of(const struct group *group, int64_t id)
{
	struct hwts_want key = { .id = id }, *at = &key,
			 **found = bsearch(&at, group->wants, group->n, sizeof(struct hwts_want *), by_id);

	return found ? *found : NULL;
}

/* Copies a value behind the structure.  The memory is zeroed, so a text ends with 0. */
static const void *keep(char **behind, const struct hwts_value *value)
{
	char *to = *behind;

	if (value->len == 0)
		return NULL;
	*behind += value->len + 1;
	return memcpy(to, value->bytes, value->len);
}

/* Makes a row with its texts and data behind it.  NULL: no memory. */
static struct hwts_row *row_of(const struct hwts_value *row)
{
	size_t texts = row[5].len + row[6].len + row[8].len + row[9].len + row[10].len + 5;
	struct hwts_row *made = hwts_alloc(sizeof(*made) + texts);
	char *behind;

	if (!made)
		return NULL;
	behind = (char *)(made + 1);
	made->data = keep(&behind, &row[6]); /* first, so that data is aligned */
	made->key = keep(&behind, &row[5]);
	made->len = row[6].len;
	made->group = keep(&behind, &row[8]);
	made->schedule = keep(&behind, &row[9]);
	made->zone = keep(&behind, &row[10]);
	made->due_us = hwts_within(row[1].number, HWTS_LATEST_US);
	made->base_us = hwts_within(row[2].number, HWTS_LATEST_US);
	made->period_us = hwts_within(row[3].number, HWTS_LONGEST_PERIOD_US);
	made->attempt = (unsigned)HWTS_MAX(row[4].number, 1); /* the begin has counted this attempt */
	made->now_us = row[7].number;
	made->grace_us = hwts_within(row[11].number, HWTS_LONGEST_PERIOD_US);
	made->spread_us = hwts_within(row[12].number, HWTS_LONGEST_PERIOD_US);
	return made;
}

static int begun(void *ctx, const struct hwts_value *row)
{
	struct hwts_want *want = want_of(ctx, row[0].number);

	if (want)
		want->begun = true;
	return 0;
}

/*
 * A row that was not begun: it is due later than this process believed, its shard is lost, or a lock or its group was
 * in the way.
 */
static int pending(void *ctx, const struct hwts_value *row)
{
	const struct group *all = ctx;
	struct hwts_want *want = want_of(all, row[0].number);
	bool runs = row[3].number == HWT_STORE_RUNNING, marked = runs && row[6].number != HWTS_UNMARKED;

	if (!want || want->row)
		return 0;
	want->locked = runs && !marked && all->again && row[5].number == want->epoch;
	if (runs && row[5].number >= want->epoch + marked && !want->locked)
		return 0;
	want->due_us = hwts_within(row[1].number, HWTS_LATEST_US);
	want->now_us = row[8].number;
	want->lost = row[2].number != want->epoch;
	want->stale = !want->lost && row[7].number != want->rules;
	want->dead = runs && !want->locked;
	want->mark = (enum hwts_mark)row[6].number;
	want->runs_epoch = row[5].number;
	want->attempt = (unsigned)row[4].number;
	return 0;
}

struct begin {
	struct hwts_want **wants; /* in the order of groups */
	int64_t *ids, *shards;    /* ids of wants; shards: each shard once in each group */
	struct group *groups;
	struct hwts_step *steps; /* locks, a statement for each group, and the reading of the begun rows */
	size_t n, group_count, shard_count;
	bool synced, again;
};

/*
 * Keeps the data of a begun row if the row still runs under the epoch of its want: another process may have begun it
 * since.
 */
static int read_begun(void *ctx, const struct hwts_value *row)
{
	const struct begin *begin = ctx;
	struct hwts_want *want = NULL;

	for (size_t i = 0; i < begin->group_count && !want; i++)
		want = want_of(&begin->groups[i], row[0].number);
	if (!want || !want->begun || want->row || row[13].number != want->epoch)
		return 0;
	want->row = row_of(row);
	if (!want->row)
		return ENOMEM;
	want->row->id = want->id;
	want->row->shard = want->shard;
	want->row->epoch = want->epoch;
	return 0;
}

static void add_shard(struct begin *begin, size_t from, int32_t shard)
{
	size_t i = from;

	while (i < begin->shard_count && begin->shards[i] != shard)
		i++;
	begin->shards[i] = shard;
	begin->shard_count = HWTS_MAX(begin->shard_count, i + 1);
}

/* At most once (synced): no row that runs under an older epoch is begun. */
static void group_wants(struct begin *begin, const char *me)
{
	qsort(begin->wants, begin->n, sizeof(*begin->wants), by_group);
	begin->group_count = begin->shard_count = 0;
	for (size_t i = 0, count; i < begin->n; i += count) {
		struct group *group = &begin->groups[begin->group_count];
		const struct hwts_want *first = begin->wants[i];
		int64_t most = first->max_attempts ? first->max_attempts : INT32_MAX,
			limit = first->last ? INT32_MAX : most - 1;
		size_t shards = begin->shard_count;

		for (count = 0; i + count < begin->n && by_statement(begin->wants[i + count], first) == 0; count++) {
			begin->ids[i + count] = begin->wants[i + count]->id;
			add_shard(begin, shards, begin->wants[i + count]->shard);
		}
		*group = (struct group){ &begin->wants[i], count, begin->again };
		begin->steps[++begin->group_count] = (struct hwts_step){
			HWTS_SQL_BEGIN,
			{ HWTS_BYTES(&begin->ids[i], count),
			  HWTS_BYTES(&begin->shards[shards], begin->shard_count - shards), HWTS_NUMBER(first->epoch),
			  HWTS_TEXT(me), HWTS_NUMBER(begin->synced ? first->epoch : 0),
			  HWTS_NUMBER(first->epoch + begin->again), HWTS_NUMBER(first->beyond ? 0 : limit),
			  HWTS_NUMBER(HWTS_MIN(most, HWTS_AT_ONCE + 1)), HWTS_NUMBER(first->rules) },
			.each = begun,
			.ctx = group
		};
	}
	begin->steps[0] = (struct hwts_step)HWTS_DO(SHARE, HWTS_BYTES(begin->shards, begin->shard_count));
	begin->steps[begin->group_count + 1] = (struct hwts_step)HWTS_ASK(BEGUN, read_begun, begin,
									  HWTS_BYTES(begin->ids, begin->n));
	begin->steps[begin->group_count + 1].after = true;
}

/* The data of begun rows cannot be read: the rows become pending again, as if they had not been begun. */
static int undo(struct hwts_conn *conn, struct begin *begin, unsigned flags)
{
	char text[256];
	int rc;

	hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
	for (size_t i = 1; i <= begin->group_count; i++) {
		const struct hwts_value *args = begin->steps[i].args;

		begin->steps[i] = (struct hwts_step)HWTS_DO(BEGIN_UNDO, args[0], args[2]);
	}
	rc = hwts_run(conn, begin->steps + 1, begin->group_count, flags);
	conn->refused = rc == 0;
	return rc ? rc : hwts_fail(EIO, "%s", text);
}

/* The begin is committed.  Reads the data of begun rows once more if some is missing. */
static int read_again(struct hwts_conn *conn, struct begin *begin, unsigned flags)
{
	struct hwts_step *step = &begin->steps[begin->group_count + 1];
	bool all = true;
	int rc;

	for (size_t i = 0; i < begin->n; i++)
		all &= !begin->wants[i]->begun || begin->wants[i]->row;
	if (all)
		return 0;
	step->after = false;
	rc = hwts_run(conn, step, 1, HWTS_READS);
	if (rc != 0 && conn->refused)
		rc = undo(conn, begin, flags);
	return rc == 0 || conn->refused ? rc : ECONNRESET;
}

/* Reads which of the rows that were not begun are pending, and when they are due. */
static int read_pending(struct hwts_conn *conn, struct begin *begin, unsigned flags)
{
	struct group all = { begin->wants, begin->n, begin->again };
	struct hwts_step step = HWTS_ASK(PENDING, pending, &all, HWTS_BYTES(begin->ids, 0));

	for (size_t i = 0; i < begin->n; i++)
		if (!begin->wants[i]->row)
			begin->ids[step.args[0].len++] = begin->wants[i]->id;
	if (step.args[0].len == 0)
		return 0;
	qsort(begin->wants, begin->n, sizeof(*begin->wants), by_id);
	return hwts_run(conn, &step, 1, flags);
}

int hwts_rows_begun(struct hwts_conn *conn, struct hwts_want *wants, size_t n)
{
	struct begin begin = { .wants = hwts_alloc(n * sizeof(*begin.wants)),
			       .ids = hwts_alloc(n * sizeof(*begin.ids)),
			       .n = n,
			       .again = true };
	int rc = begin.wants && begin.ids ? 0 : ENOMEM;

	conn->refused = false;
	for (size_t i = 0; i < n && rc == 0; i++)
		begin.wants[i] = &wants[i];
	if (rc == 0)
		rc = read_pending(conn, &begin, HWTS_READS);
	free(begin.wants);
	free(begin.ids);
	if (n > 1 || rc == 0 || !conn->refused)
		return rc;
	wants->locked = true;
	return 0;
}

/* True: rows that are due, as far as this process knows, were not begun.  They may be locked. */
static bool left_any(const struct begin *begin)
{
	for (size_t i = 0; i < begin->n; i++)
		if (!begin->wants[i]->row && begin->wants[i]->due_us != HWTS_NEVER)
			return true;
	return false;
}

static int begin_all(struct hwts_conn *conn, struct begin *begin)
{
	bool locks_rows = conn->db->engine->locks_rows, locks;
	unsigned flags = (begin->synced ? HWTS_SYNCED : 0) | (locks_rows ? 0 : HWTS_OPEN);
	int rc;

	group_wants(begin, hwts_me(conn->db));
	for (size_t i = 1; conn->skips > 0 && i <= begin->group_count; i++)
		begin->steps[i].sql = HWTS_SQL_BEGIN_UNLOCKED;
	locks = locks_rows && begin->group_count > 1 && conn->skips == 0;
	rc = hwts_run(conn, begin->steps + !locks, begin->group_count + locks + 1, flags);
	if (!locks_rows) { /* SQLite: no other row waits if the transaction takes a moment longer */
		if (rc == 0)
			rc = read_pending(conn, begin, HWTS_OPEN);
		return hwts_finish(conn, rc);
	}
	/* Begins without rows that another transaction has locked, as it may hold them for as long as it likes. */
	if (rc == EAGAIN && !conn->broken && conn->skips == 0) {
		conn->skips = HWTS_SKIPS;
		return begin_all(conn, begin);
	}
	if (rc == 0)
		rc = read_again(conn, begin, flags);
	if (rc == 0 && read_pending(conn, begin, HWTS_READS) != 0)
		rc = ECONNRESET; /* the begin is committed, but its rows are not handed out: begun once more */
	if (rc == 0 && conn->skips > 0)
		conn->skips = left_any(begin) ? HWTS_SKIPS : conn->skips - 1;
	conn->broken |= rc == ECONNRESET;
	return rc;
}

int hwts_rows_begin(struct hwts_conn *conn, struct hwts_want *wants, size_t n, bool synced, bool again)
{
	struct begin begin = { .wants = hwts_alloc(n * sizeof(*begin.wants)),
			       .ids = hwts_alloc(n * sizeof(*begin.ids)),
			       .shards = hwts_alloc(n * sizeof(*begin.shards)),
			       .groups = hwts_alloc(n * sizeof(*begin.groups)),
			       .n = n,
			       .synced = synced,
			       .again = again };
	size_t room = 0;
	bool done = begin.wants && begin.ids && begin.shards && begin.groups &&
		    hwts_grow(&begin.steps, &room, n + 2, sizeof(*begin.steps));
	int rc = done ? 0 : ENOMEM;

	for (size_t i = 0; i < n; i++) {
		wants[i].row = NULL;
		wants[i].due_us = HWTS_NEVER;
		wants[i].begun = wants[i].inherited = false;
		wants[i].stale = wants[i].lost = wants[i].dead = wants[i].locked = false;
		wants[i].mark = HWTS_UNMARKED;
		if (rc == 0)
			begin.wants[i] = &wants[i];
	}
	if (rc == 0)
		rc = begin_all(conn, &begin);
	for (size_t i = 0; i < n && rc != 0; i++) {
		free(wants[i].row);
		wants[i].row = NULL;
	}
	free(begin.wants);
	free(begin.ids);
	free(begin.shards);
	free(begin.groups);
	free(begin.steps);
	return rc;
}
