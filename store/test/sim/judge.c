/* SPDX-License-Identifier: BSD-2-Clause */
/* What must hold; world.h. */
#include "world.h"

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

static struct item *item_of(const struct version *version)
{
	unsigned number;

	memcpy(&number, version->s[DATA]->bytes, sizeof(number));
	return &items[number];
}

static const struct version *committed(const struct row *row)
{
	struct act act = { .sees = sim_server.commits };

	return sim_see(&act, row);
}

/* A series that was cancelled while it ran, or was begun: this run is its last. */
static bool is_last_run(const hwt_store_run *run)
{
	const struct hwts_row *begun = ((const struct hwts_running *)run)->row; /* run is its first member */

	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = committed(row);

		if (t && t->n[ID] == begun->id)
			return t->n[STATE] == 2 && t->n[EPOCH] == begun->epoch && t->n[LAST];
	}
	return false;
}

/* A start, before it is counted. */
void sim_judge_start(const struct item *item, const hwt_store_run *run)
{
	bool was_stopped = sim_now() - sim_me()->continued_ns < HWT_MS(10);

	(void)sim_server_us();
	if (run->due_us > sim_server.most_us)
		sim_fail("D4", 0, "timeout %u starts %.6f s too early", number_of(item),
			 (double)(run->due_us - sim_server.most_us) / 1e6);
	if (item->put == REFUSED)
		sim_fail("D1", 0, "timeout %u was refused and starts", number_of(item));
	if (item->cancelled && !item->lost && !was_stopped && !is_last_run(run))
		sim_fail("D6", 0, "timeout %u was cancelled and starts", number_of(item));
	if (item->mode == HWT_STORE_AT_MOST_ONCE && !item->lost && !item->may_start_again &&
	    (item->starts > item->returned || (item->done > 0 && item->period_us == 0)))
		sim_fail("D3", 0, "timeout %u starts again after a run that %s", number_of(item),
			 item->done ? "was done" : "did not end");
}

void sim_judge_gone(const struct version *version, bool again)
{
	struct item *item = item_of(version);

	item->lost |= again && sim_server.breaks_its_word;
	if (again && item->cancelled && !item->lost)
		sim_fail("D2", 0, "a cancel of timeout %u was forgotten", number_of(item));
}

void sim_judge_lost(const struct version *version)
{
	struct item *item = item_of(version);

	item->lost |= sim_server.breaks_its_word;
	if (!version->older && item->put == ACCEPTED && !item->lost)
		sim_fail("D1", 0, "the put of timeout %u was forgotten", number_of(item));
}

/*
 * What is due in a living world runs within a lease and two seconds.
 */

static void judge_row(const struct version *t)
{
	const struct item *item = item_of(t);
	int64_t allowed_us = (sim_lease_ns + HWT_S(2)) / 1000, since_us = (sim_fault_ns + sim_server.clock_ns) / 1000;

	if (item->is_poisoned || sim_is_running(item))
		return;
	since_us = HWTS_MAX(since_us, t->n[DUE]);
	if (item->ended_ns)
		since_us = HWTS_MAX(since_us, (item->ended_ns + sim_server.clock_ns) / 1000);
	if (t->n[STATE] != 3 && sim_server_us() - since_us > allowed_us)
		sim_fail("D5", 0, "timeout %u is %s, and nobody has come for %.3f s", number_of(item),
			 t->n[STATE] == 1 ? "due" : "running", (double)(sim_server_us() - since_us) / 1e6);
}

/* A task lasts so long that others may have to wait for its thread. */
static bool holds_a_thread(void)
{
	for (unsigned i = 0; i < item_count; i++)
		if (items[i].lasts_ns > HWT_MS(20) && sim_is_running(&items[i]))
			return true;
	return false;
}

void *sim_watch(void *unused)
{
	for (;;) {
		sim_sleep(sim_lease_ns / 4);
		if (holds_a_thread())
			sim_note_fault(0);
		if (sim_fault_count > 0)
			continue;
		EACH_ROW(TIMEOUT, row)
		if (committed(row))
			judge_row(committed(row));
	}
	return unused;
}

/*
 * The end
 */

static const struct version *row_of(const struct item *item)
{
	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = committed(row);

		if (t && t->n[ID] == item->id)
			return t;
	}
	return NULL;
}

bool sim_is_quiet(void)
{
	EACH_ROW(TIMEOUT, row)
	{
		const struct version *t = committed(row);

		if (t && t->n[STATE] != 3 && t->n[PERIOD] == 0 && !item_of(t)->is_poisoned)
			return false;
	}
	return true;
}

static unsigned effects_of(unsigned number)
{
	unsigned count = 0;

	EACH_ROW(EFFECT, row)
	count += committed(row) && committed(row)->n[EFFECT_ITEM] == number;
	return count;
}

static void judge_present(const struct item *item, const struct version *t)
{
	unsigned number = number_of(item);

	if (item->cancelled)
		sim_fail("D2", 0, "timeout %u was cancelled and is there", number);
	if (t->n[STATE] == 3 || item->is_poisoned)
		return;
	if (item->period_us == 0)
		sim_fail("D2", 0, "timeout %u has had no end: state %d", number, (int)t->n[STATE]);
}

static void judge_absent(const struct item *item)
{
	unsigned number = number_of(item);

	if (item->done == 0 && !item->cancelled && !item->may_be_cancelled)
		sim_fail("D1", 0, "timeout %u is gone without a run", number);
	if (item->mode == HWT_STORE_TRANSACTION && item->period_us == 0 && !item->cancelled &&
	    !item->may_be_cancelled && effects_of(number) != 1)
		sim_fail("D3", 0, "timeout %u has had %u effects", number, effects_of(number));
}

void sim_judge_all(void)
{
	for (unsigned i = 0; i < item_count; i++) {
		const struct item *item = &items[i];
		const struct version *t = item->id ? row_of(item) : NULL;

		if (item->put != ACCEPTED || item->lost || item->revived)
			continue;
		if (item->mode == HWT_STORE_TRANSACTION && item->period_us == 0 && effects_of(i) > 1)
			sim_fail("D3", 0, "timeout %u has had %u effects", i, effects_of(i));
		if (t)
			judge_present(item, t);
		else
			judge_absent(item);
	}
}
