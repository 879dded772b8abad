/* SPDX-License-Identifier: BSD-2-Clause */
/* The promises that must hold; world.h. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

bool sim_is_running(const struct item *item)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NODES; i++)
		count += item->running[i];
	return count > 0;
}

static unsigned number_of(const struct item *item)
{
	return (unsigned)(item - items);
}

static struct item *item_in(const struct text *data)
{
	unsigned number;

	memcpy(&number, data->bytes, sizeof(number));
	return &items[number];
}

struct item *sim_item_of(const struct version *version)
{
	return item_in(version->s[DATA]);
}

/* True: the row is the item's, or its replacement is. */
static bool has_item(const struct version *version, const struct item *item)
{
	return sim_item_of(version) == item || (version->s[NEXT_DATA] && item_in(version->s[NEXT_DATA]) == item);
}

bool sim_has_key_of(const struct item *a, const struct item *b)
{
	return a->key && a->kind == b->kind && a->key == b->key && a->group == b->group;
}

/* A put whose client has given up may replace a present timeout when it arrives. */
static void judge_replaced(struct item *item, const struct item *by, int64_t state)
{
	if (!by->flags || !sim_has_key_of(item, by) || (by->flags == HWT_STORE_REVIVE && state != 3))
		sim_fail("a put", 0, "timeout %u has become %u", number_of(item), number_of(by));
	item->is_another = true;
}

void sim_judge_made(const struct version *version)
{
	const struct version *older = version->older;
	const struct item *last = item_in(version->s[version->s[NEXT_DATA] ? NEXT_DATA : DATA]);

	if (!older || has_item(older, last))
		return;
	judge_replaced(sim_item_of(older), last, older->n[STATE]);
	if (older->s[NEXT_DATA])
		judge_replaced(item_in(older->s[NEXT_DATA]), last, older->n[STATE]);
}

const struct version *sim_committed(const struct row *row)
{
	struct act act = { .sees = sim_server.commits };

	return sim_see(&act, row);
}

static const struct hwts_row *begun(const hwt_store_run *run)
{
	return ((const struct hwts_running *)run)->row; /* run is the first member */
}

/* Returns the row, if it runs under this run's epoch. */
static const struct version *row_run(const hwt_store_run *run)
{
	const struct version *t = sim_row_of_id(run->id);

	return t && t->n[STATE] == 2 && t->n[EPOCH] == begun(run)->epoch ? t : NULL;
}

/*
 * mark LAST: a series that was cancelled during the run; NEXT_...: replaced during the run.  Either way the run is its
 * last.
 */
static bool is_last_run(const hwt_store_run *run, int mark)
{
	return row_run(run) && row_run(run)->n[mark];
}

/* A row is begun under an epoch once at a time, whatever becomes of it meanwhile. */
static bool runs_already(const struct item *item, const hwt_store_run *run)
{
	for (const struct item *other = items; other < items + item_count; other++)
		for (unsigned node = 0; node < NODES && other != item && other->id == run->id; node++)
			if (other->running[node] > 0 && other->epoch[node] == begun(run)->epoch)
				return true;
	return false;
}

static bool is_text(const char *text, const char *wanted)
{
	return text && wanted ? strcmp(text, wanted) == 0 : text == wanted;
}

/* Checks the fields of the run. */
static void judge_run(const struct item *item, const hwt_store_run *run)
{
	char key[16];

	(void)snprintf(key, sizeof(key), "%u", item->key);
	SIM_CHECK(is_text(run->kind, sim_kinds[item->kind].name) && is_text(run->key, item->key ? key : NULL));
	SIM_CHECK(is_text(run->group, sim_group_names[item->group]) && run->len == item->len);
	for (size_t i = sizeof(unsigned); i < run->len; i++)
		SIM_CHECK(((const unsigned char *)run->data)[i] == (number_of(item) & 0xff));
	if (run->attempt < 1 || run->attempt > sim_settings.max_attempts)
		sim_fail("attempts", 0, "timeout %u starts for the %uth time", number_of(item), run->attempt);
}

/* If one timeout of a put_many exists, all of them do. */
static void accept_all(struct item *item)
{
	for (unsigned i = 0; i < item->batch; i++) {
		struct item *other = item - item->at_in_batch + i;

		if (other->put == REFUSED)
			sim_fail("D1", 0, "timeout %u is there, and %u is not", number_of(item), number_of(other));
		if (other->put == CALLED)
			other->put = other->flags ? CALLED : ACCEPTED;
	}
}

/*
 * Half past two in Berlin on a day of UTC: in spring the end of the hour that is left out, in autumn the first of the
 * two.
 */
static int64_t local_us(int64_t day)
{
	int64_t spring = SIM_SPRING_S / 86400, autumn = SIM_AUTUMN_S / 86400,
		s = day == spring                   ? 3600
		    : day > spring && day <= autumn ? 1800
						    : 5400;

	return (day * 86400 + s) * 1000000;
}

static int64_t next_us(const struct item *item, int64_t us, int64_t times)
{
	return item->is_local ? local_us(us / INT64_C(86400000000) + times) : us + times * item->period_us;
}

/* Nothing is out of order, so the holder was told in time. */
static void judge_lateness(const struct item *item, const hwt_store_run *run)
{
	int64_t late_ns = (sim_server_us() - begun(run)->due_us) * 1000;

	/* The run before may have been long. */
	late_ns = HWTS_MIN(late_ns, sim_now() - HWTS_MAX(sim_fault_ns, item->ended_ns));
	if (late_ns > sim_settings.most_late_ns)
		sim_fail("D6", 0, "timeout %u starts %.3f s late, and nothing was out of order", number_of(item),
			 (double)late_ns / 1e9);
}

/* No more times were merged into the run than have come; a line whose own time was moved may have one more. */
static void judge_missed(const struct item *item, const hwt_store_run *run)
{
	int64_t since_us = sim_server.most_us - run->due_us;

	if (item->period_us > 0 && !item->is_local && since_us >= 0 &&
	    run->missed > 1 + (uint64_t)(since_us / item->period_us))
		sim_fail("series", 0, "timeout %u has missed %llu times in %.3f s", number_of(item),
			 (unsigned long long)run->missed, (double)since_us / 1e6);
}

static void judge_time(const struct item *item, const hwt_store_run *run)
{
	int64_t late_us = sim_server_us() - (item->period_us ? begun(run)->base_us : begun(run)->due_us);

	if (item->is_local && !item->is_moved && run->due_us != next_us(item, run->due_us, 0))
		sim_fail("a cron line", 0, "timeout %u is due at %.0f s", number_of(item), (double)run->due_us / 1e6);
	judge_missed(item, run);
	if (begun(run)->due_us > sim_server.most_us)
		sim_fail("D4", 0, "timeout %u starts %.6f s too early", number_of(item),
			 (double)(begun(run)->due_us - sim_server.most_us) / 1e6);
	/* Otherwise a stop did not wait. */
	if (sim_settings.most_late_ns && !sim_is_ruled(item) && !sim_is_running(item))
		judge_lateness(item, run);
	/*
	 * A process that stood still or was cut off hears late of a step of the clock, and believes it a lease later.
	 */
	if (item->grace_us && late_us > item->grace_us + HWTS_S_US &&
	    sim_now() - HWTS_MAX(sim_step_ns, sim_fault_ns) > 2 * sim_lease_ns)
		sim_fail("grace", 0, "timeout %u starts %.3f s late", number_of(item), (double)late_us / 1e6);
}

/* True: the row that runs is the item's. */
static bool has_row(const struct item *item, const hwt_store_run *run)
{
	return row_run(run) && sim_item_of(row_run(run)) == item;
}

/* An end that is not committed yet is lost with its process, and an end in a transaction may be rolled back. */
void sim_note_over(struct item *item, const hwt_store_run *run)
{
	item->ended_series = true;
	item->is_over = has_row(item, run);
}

static void judge_series(struct item *item, const hwt_store_run *run)
{
	if (!item->is_over || !has_row(item, run))
		return;
	if (item->mode != HWT_STORE_TRANSACTION && !item->lost && !item->may_start_again)
		sim_fail("D2", 0, "timeout %u has ended its series and starts", number_of(item));
	item->is_over = false;
}

/* The putter has not been told the id.  Users that know the id from the timeout it replaced may have moved it. */
static void note_moved(struct item *item, int64_t id)
{
	for (unsigned i = 0; i < item_count && item->id != id; i++)
		item->is_moved |= items[i].id == id && items[i].is_moved;
}

/* What waits to be pulled may start though another process has cancelled or replaced it, but not late. */
static void judge_off(const struct item *item)
{
	int64_t since_ns = sim_now() - item->off_ns;

	if (sim_kinds[item->kind].flags && since_ns > sim_lease_ns / 3)
		sim_fail("D6", 0, "timeout %u starts %.3f s after it was cancelled or replaced", number_of(item),
			 (double)since_ns / 1e9);
}

/* Judges a start before it is counted. */
void sim_judge_start(struct item *item, const hwt_store_run *run, const struct node *node)
{
	bool was_stopped = sim_now() - sim_me()->continued_ns < HWT_MS(10);

	note_moved(item, run->id);
	judge_run(item, run);
	sim_judge_rules(item, was_stopped);
	sim_judge_turns(item, node);
	if (!was_stopped)
		judge_time(item, run);
	if (item->put == REFUSED)
		sim_fail("D1", 0, "timeout %u was refused and starts", number_of(item));
	judge_series(item, run);
	if (item->batch)
		accept_all(item);
	if (item->cancelled && !item->lost && !was_stopped && (item->is_off || !is_last_run(run, LAST)))
		sim_fail("D6", 0, "timeout %u was cancelled and starts", number_of(item));
	if (item->replaced && !item->lost && !was_stopped && (item->is_off || !is_last_run(run, NEXT_DUE)))
		sim_fail("D6", 0, "timeout %u was replaced and starts", number_of(item));
	if ((item->cancelled || item->replaced) && !item->lost && !was_stopped)
		judge_off(item);
	if (runs_already(item, run))
		sim_fail("D5", 0, "timeout %u starts while what it has replaced runs", number_of(item));
	item->epoch[node->number] = begun(run)->epoch;
	item->id = run->id; /* its putter may never be told the id */
	if (item->mode == HWT_STORE_AT_MOST_ONCE && !item->lost && !item->may_start_again &&
	    (item->starts > item->returned || (item->done > 0 && item->period_us == 0)))
		sim_fail("D3", 0, "timeout %u starts again after a run that %s", number_of(item),
			 item->done ? "was done" : "did not end");
}

/* True: another process has begun the row, and this one should know; a process that slept does not. */
bool sim_is_anothers(const struct item *item, const hwt_store_run *run)
{
	const struct version *t = sim_row_of_id(run->id);

	return t && t->n[STATE] == 2 && t->n[EPOCH] > begun(run)->epoch && !item->lost && !sim_settings.one_name &&
	       sim_now() - sim_me()->continued_ns >= HWT_MS(10) && sim_now() - sim_step_ns > 2 * sim_lease_ns;
}

void sim_judge_left(const struct version *version)
{
	sim_item_of(version)->is_over = false;
}

void sim_judge_gone(const struct version *version, bool again)
{
	struct item *item = sim_item_of(version);

	item->is_over &= !again;
	item->lost |= again && sim_server.breaks_its_word;
	item->is_undone |= again && version->n[STATE] == 2;
	if (again && item->cancelled && !item->lost && !version->n[LAST])
		sim_fail("D2", 0, "a cancel of timeout %u was forgotten", number_of(item));
}

/*
 * Judges one of the two timeouts of a version that was taken back.  The timeout before it exists again, though it may
 * have been replaced.
 */
static void judge_lost(const struct version *version, int at)
{
	const struct version *older = version->older;
	struct item *item = version->s[at] ? item_in(version->s[at]) : NULL;

	if (older && older->s[at])
		item_in(older->s[at])->lost |= sim_server.breaks_its_word;
	if (!item)
		return;
	item->lost |= sim_server.breaks_its_word;
	if (!(older && has_item(older, item)) && item->put == ACCEPTED && !item->lost)
		sim_fail("D1", 0, "the put of timeout %u was forgotten", number_of(item));
}

void sim_judge_lost(const struct version *version)
{
	sim_item_of(version)->is_over = false;
	if (version->older && version->older->n[STATE] == 2)
		sim_item_of(version->older)->is_undone = true;
	judge_lost(version, DATA);
	judge_lost(version, NEXT_DATA);
}

/*
 * Timeouts that are due in a living world run within a lease and two seconds.
 */

static const char *owner_of(const struct version *t)
{
	EACH_COMMITTED (SHARD, shard)
		if (shard->n[SHARD_ID] == t->n[SHARD_OF] && shard->s[SHARD_OWNER])
			return shard->s[SHARD_OWNER]->bytes;
	return "nobody";
}

/*
 * A call that waits for a row that a user has locked keeps its own locks, until its lock_timeout at most.  A begin waits
 * only briefly.
 */
static bool waits_for_users(const struct tx *tx)
{
	const struct row *row = tx->waits_for;

	if (!row || row->table != TIMEOUT || tx->lock_patience_ns <= HWT_MS(200))
		return false;
	for (unsigned i = 0; i < row->lock_count; i++)
		if (row->locks[i].tx->is_users)
			return true;
	return false;
}

/* A lock of a store's client that stands still may last a lease and a second longer. */
static bool is_users(const struct row *row)
{
	for (unsigned i = 0; i < row->lock_count; i++) {
		const struct tx *tx = row->locks[i].tx;

		if (tx->is_users || waits_for_users(tx) ||
		    (tx->stands && sim_now() - tx->began_ns < 2 * sim_lease_ns + HWT_S(2)))
			return true;
	}
	return false;
}

/*
 * True: a user has locked the row, its shard, or the member that owns the shard.  The library cannot release such a
 * lock.
 */
static bool is_held_up(const struct version *t, const struct row *of)
{
	const char *owner = owner_of(t);

	if (is_users(of))
		return true;
	EACH_ROW(SHARD, row)
	if (row->newest && row->newest->n[SHARD_ID] == t->n[SHARD_OF] && is_users(row))
		return true;
	EACH_ROW(MEMBER, row)
	if (row->newest && strcmp(row->newest->s[MEMBER_NAME]->bytes, owner) == 0 && is_users(row))
		return true;
	return false;
}

static void judge_row(const struct version *t, const struct row *row)
{
	struct item *item = sim_item_of(t);
	int64_t allowed_us = (sim_lease_ns + HWT_S(2)) / 1000, since_us = (sim_fault_ns + sim_server.clock_ns) / 1000,
		more_us = 0;

	if (item->is_poisoned || sim_is_running(item))
		return;
	if (is_held_up(t, row))
		item->held_up_ns = sim_now();
	since_us = HWTS_MAX(HWTS_MAX(since_us, t->n[DUE]), (item->held_up_ns + sim_server.clock_ns) / 1000);
	if (item->ended_ns)
		since_us = HWTS_MAX(since_us, (item->ended_ns + sim_server.clock_ns) / 1000);
	if (t->n[STATE] == 3 || sim_server_us() - since_us <= allowed_us)
		return;
	since_us = sim_waits_since_us(item, since_us, &more_us);
	if (sim_server_us() - since_us > allowed_us + more_us)
		sim_fail("D5", 0, "timeout %u of shard %d is %s, and %s has not come for %.3f s", number_of(item),
			 (int)t->n[SHARD_OF], t->n[STATE] == 1 ? "due" : "running", owner_of(t),
			 (double)(sim_server_us() - since_us) / 1e6);
}

/*
 * Tasks last so long that other timeouts wait for a thread: the process has no more threads, their kind may not use
 * more, or a stop waits for these tasks.
 */
bool sim_lacks_threads(const struct node *node)
{
	unsigned count = 0, of_kind[KINDS] = { 0 };
	bool any = false;

	for (const struct item *item = items; item < items + item_count; item++) {
		if (!sim_is_long(item) || item->running[node->number] == 0)
			continue;
		any = true;
		count += !sim_kinds[item->kind].flags;
		of_kind[item->kind]++;
	}
	for (unsigned kind = 0; kind < KINDS; kind++)
		if (of_kind[kind] >= (sim_settings.concurrency[kind] ? sim_settings.concurrency[kind] : node->threads))
			return true;
	return count >= node->threads || (any && node->stops_since_ns);
}

static bool anybody_lacks_threads(void)
{
	for (unsigned i = 0; i < node_count; i++)
		if (nodes[i].is_up && sim_lacks_threads(&nodes[i]))
			return true;
	return false;
}

/*
 * At most once: no more rows are begun than threads are free, as a begun row is lost if the process dies.  No pulled
 * row is begun ahead.
 */
void sim_judge_begun(const struct node *node, unsigned kind)
{
	unsigned count = sim_kinds[kind].flags ? node->running[kind] : 0,
		 most = sim_kinds[kind].flags ? sim_bound(node, kind) : 2 * node->threads;

	if (sim_fault_count > 0 || sim_now() - sim_fault_ns < 2 * sim_lease_ns)
		return; /* some may have been begun without a reply */
	EACH_COMMITTED (TIMEOUT, t)
		/* A row that a call has taken, or that is given back, has left its place to another. */
		count += t->n[STATE] == 2 && sim_item_of(t)->kind == kind && sim_item_of(t)->starts == 0 &&
			 sim_is_owner(node, t) && (!sim_kinds[kind].flags || sim_queued_ns(node, t->n[ID]) != 0);
	if (count > most)
		sim_fail("D3", 0, "%u timeouts of %s are begun, and %u may be", count, sim_kinds[kind].name, most);
}

static void judge_stops(void)
{
	for (unsigned i = 0; i < node_count; i++)
		if (nodes[i].is_up && nodes[i].stops_since_ns &&
		    sim_now() - HWTS_MAX(nodes[i].stops_since_ns, sim_fault_ns) > 10 * sim_lease_ns + HWT_S(60))
			sim_fail("a stop", 0, "of %s does not end", nodes[i].process->name);
}

void *sim_watch(void *unused)
{
	for (;;) {
		sim_sleep(sim_lease_ns / 4);
		if (anybody_lacks_threads())
			sim_note_fault(0);
		if (sim_fault_count > 0)
			continue;
		judge_stops();
		EACH_COMMITTED (TIMEOUT, t)
			judge_row(t, row);
	}
	return unused;
}

/*
 * The end
 */

static bool is_series(const struct version *t)
{
	return t->n[PERIOD] != 0 || t->s[SCHEDULE];
}

static bool ends_soon(const struct item *item)
{
	return item->last_start > item->starts && item->period_us < 5 * sim_lease_ns / 1000;
}

bool sim_is_quiet(void)
{
	EACH_COMMITTED (TIMEOUT, t)
		if (t->n[STATE] != 3 && !sim_item_of(t)->is_poisoned && (!is_series(t) || ends_soon(sim_item_of(t))))
			return false;
	return true;
}

/* Finds the row also if its putter has died before it was told the id. */
static const struct version *row_of(const struct item *item)
{
	EACH_COMMITTED (TIMEOUT, t)
		if (sim_item_of(t) == item)
			return t;
	return NULL;
}

/*
 * Effects
 */

static int by_due(const void *left, const void *right)
{
	const struct version *a = *(const struct version *const *)left, *b = *(const struct version *const *)right;

	return (a->n[EFFECT_DUE] > b->n[EFFECT_DUE]) - (a->n[EFFECT_DUE] < b->n[EFFECT_DUE]);
}

/* Each time of a grid is served once: by its own run, or by a later run, which says how many it has missed. */
static void judge_grid(const struct item *item, const struct version **effects, size_t n)
{
	qsort(effects, n, sizeof(effects[0]), by_due);
	for (size_t i = 1; i < n; i++) {
		int64_t wanted_us = next_us(item, effects[i - 1]->n[EFFECT_DUE], 1 + effects[i - 1]->n[EFFECT_MISSED]);

		if (effects[i]->n[EFFECT_DUE] != wanted_us)
			sim_fail("series", 0, "timeout %u has served %.3f s, and not %.3f s", number_of(item),
				 (double)effects[i]->n[EFFECT_DUE] / 1e6, (double)wanted_us / 1e6);
	}
}

static void judge_effects(const struct item *item)
{
	static const struct version *effects[1 << 16];
	size_t n = 0;

	EACH_COMMITTED (EFFECT, t)
		if (t->n[EFFECT_ITEM] == number_of(item) && t->n[EFFECT_MISSED] >= 0 && n < HWTS_COUNT(effects))
			effects[n++] = t;
	if (item->period_us == 0 && n > 1)
		sim_fail("D3", 0, "timeout %u has had %zu effects", number_of(item), n);
	if (item->period_us == 0 && n == 0 && !row_of(item) && !item->cancelled && !item->may_be_cancelled)
		sim_fail("D3", 0, "timeout %u is gone without an effect", number_of(item));
	if (item->period_us > 0 && !item->is_moved)
		judge_grid(item, effects, n);
}

/* A timeout that a run has put exists if and only if the run's effect does. */
static void judge_children(void)
{
	EACH_COMMITTED (EFFECT, t)
		if (t->n[EFFECT_CHILD])
			items[t->n[EFFECT_CHILD]].put = ACCEPTED;
	for (unsigned i = 0; i < item_count; i++)
		if (items[i].parent && items[i].put == CALLED && !items[items[i].parent - 1].lost &&
		    (items[i].starts > 0 || row_of(&items[i])))
			sim_fail("D1", 0, "timeout %u is there, and the run that has put it was rolled back", i);
}

/*
 * All
 */

/* A FAILED timeout was tried often enough, or its process died, or its task gave up, or it came too late. */
static void judge_failed(const struct item *item, const struct version *t)
{
	const char *error = t->s[ERROR] ? t->s[ERROR]->bytes : "";
	bool is_late = strcmp(error, "too late") == 0;

	if (is_late
		? !item->grace_us || item->period_us
		: t->n[ATTEMPT] < sim_settings.max_attempts && !item->gave_up && item->mode != HWT_STORE_AT_MOST_ONCE)
		sim_fail("D2", 0, "timeout %u has failed in its attempt %d: %s", number_of(item), (int)t->n[ATTEMPT],
			 error);
}

/* How long a series of this kind waits for its turn, by G2: the longest run of each other group. */
static double turns_us(const struct item *item)
{
	int64_t longest_ns[GROUPS] = { 0 }, sum_ns = 0;

	EACH_COMMITTED (TIMEOUT, t) {
		const struct item *other = sim_item_of(t);

		if (other->kind == item->kind && other->group != item->group && other->period_us > 0)
			longest_ns[other->group] = HWTS_MAX(longest_ns[other->group], other->lasts_ns);
	}
	for (unsigned group = 0; group < GROUPS; group++)
		sum_ns += longest_ns[group];
	return (double)sum_ns / 1e3;
}

/* True: series of its group that go before it, by G3, are always due. */
static bool is_outranked(const struct item *item)
{
	double load = 0, others_us = turns_us(item);

	EACH_COMMITTED (TIMEOUT, t) {
		const struct item *other = sim_item_of(t);

		if (other->kind == item->kind && other->group == item->group && other->priority > item->priority &&
		    other->period_us > 0)
			load += ((double)other->lasts_ns / 1e3 + others_us) / (double)other->period_us;
	}
	return load > 0.9 * HWTS_MAX(sim_settings.concurrency[item->kind], 1);
}

static void judge_present(const struct item *item, const struct version *t)
{
	unsigned number = number_of(item);

	if (item->cancelled)
		sim_fail("D2", 0, "timeout %u was cancelled and is there", number);
	if (item->is_poisoned)
		return;
	if (t->n[STATE] == 3)
		judge_failed(item, t);
	else if (item->period_us == 0 && t->n[DUE] < sim_server_us() && /* the clock may have been put back */
		 !is_outranked(item))
		sim_fail("D2", 0, "timeout %u has had no end: state %d", number, (int)t->n[STATE]);
	else if (item->is_over && t->n[STATE] == 1 && !item->may_start_again &&
		 (item->mode != HWT_STORE_TRANSACTION || !t->s[ERROR]))
		sim_fail("D2", 0, "timeout %u has ended its series and is there", number);
}

static void judge_absent(const struct item *item)
{
	if (item->done == 0 && !item->cancelled && !item->may_be_cancelled)
		sim_fail("D1", 0, "timeout %u is gone without a run", number_of(item));
	if (item->gives_up && !item->cancelled && !item->may_be_cancelled)
		sim_fail("D2", 0, "timeout %u has given up and is gone", number_of(item));
	if (item->period_us && !item->ended_series && !item->cancelled && !item->may_be_cancelled)
		sim_fail("D2", 0, "timeout %u, a series, is gone", number_of(item));
}

void sim_judge_all(void)
{
	judge_children();
	for (unsigned i = 0; i < item_count; i++) {
		const struct item *item = &items[i];
		const struct version *t = row_of(item);

		if (item->put != ACCEPTED || item->lost || item->is_another)
			continue;
		if (item->mode == HWT_STORE_TRANSACTION)
			judge_effects(item);
		if (t)
			judge_present(item, t);
		else
			judge_absent(item);
	}
}
