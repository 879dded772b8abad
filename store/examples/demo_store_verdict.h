/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What demo_store.c concludes from the board, the table of effects and the store itself, and how it tells.
 *
 * Judged by mode, item by item
 *
 *     at least once   its task returned 0 once or more
 *     at most once    its task started once or never; what did not end well is FAILED in the store
 *     transaction     its effect is in the table exactly once
 *     cancelled       no task started after the cancel had returned, and there is no effect
 *
 *   A worker that is killed or stopped may leave something begun, and another one then begins it again: that is what the
 *   modes are about.  But what a worker ended that was never disturbed has ended: if it starts again, it ended twice.
 */
#ifndef DEMO_STORE_VERDICT_H
#define DEMO_STORE_VERDICT_H

#include "demo_print.h"
#include "demo_store_board.h"

#define MODES 3
#define SLACK_US INT64_C(2000000) /* what is due until the lease has ended and this long after waits for a take-over */

/* One of the two blows, and how long what was due waited because of it. */
struct blow {
	unsigned worker;
	int64_t at_us, until_us; /* the database's clock; until: the worker goes on */
	int64_t longest_us;      /* wait of what was due meanwhile, since its time or the later blow */
	int64_t over_us;         /* when the last of those that had to wait began */
};

struct verdict {
	unsigned accepted[MODES], ran[MODES], again[MODES], failed[MODES], cancelled[MODES], lost[MODES], twice[MODES];
	unsigned early;
	struct blow killed, stopped;
	struct histogram late; /* of the starts that had nothing to do with a blow */
};

/* Of an item, gathered from its starts. */
struct trace {
	unsigned starts, ends, healthy_ends;
	int64_t last_begun_us;
};

static void verdict_failed(struct verdict *verdict, unsigned mode, bool *failed, unsigned item)
{
	failed[item] = true;
	verdict->failed[mode]++;
}

/* Was this worker out of order once?  The end of what it ran before may have been lost, however long before. */
static bool is_struck(const struct verdict *verdict, const struct board *board, const struct start *start)
{
	return start->worker == verdict->killed.worker || start->worker == verdict->stopped.worker ||
	       atomic_load(&board->worker[start->worker].lost_leases) > 0;
}

static void blow_feels(struct blow *blow, const struct start *start, int64_t lease_us)
{
	int64_t from_us = start->due_us > blow->at_us ? start->due_us : blow->at_us;
	int64_t waited_us = start->begun_us - from_us;

	if (start->due_us > blow->at_us + lease_us + SLACK_US || start->begun_us < blow->at_us || waited_us < 0)
		return;
	if (waited_us > blow->longest_us)
		blow->longest_us = waited_us;
	if (waited_us > lease_us / 10 && start->begun_us > blow->over_us)
		blow->over_us = start->begun_us;
}

/* Those due from the blow until all that had to wait had begun, and those that were begun then, are left out. */
static bool is_near(const struct blow *blow, const struct start *start)
{
	int64_t over_us = blow->over_us > 0 ? blow->over_us : blow->at_us;

	return start->begun_us > blow->at_us - 100000 && start->due_us < over_us + 100000;
}

static void gather(struct verdict *verdict, struct board *board, struct trace *traces, int64_t lease_us)
{
	unsigned starts = atomic_load(&board->starts);

	for (unsigned i = 0; i < starts; i++) {
		const struct start *start = &board->start[i];
		struct trace *trace = &traces[start->item];
		const struct item *item = &board->item[start->item];

		if (!atomic_load(&start->begun))
			continue;
		trace->starts++;
		trace->ends += atomic_load(&start->done);
		trace->healthy_ends += atomic_load(&start->done) && !is_struck(verdict, board, start);
		trace->last_begun_us = start->begun_us > trace->last_begun_us ? start->begun_us : trace->last_begun_us;
		if (start->begun_us < start->due_us - board->tolerance_us)
			verdict->early++;
		if (atomic_load(&item->fate) == CANCELLED && start->begun_us > item->cancelled_us + board->tolerance_us)
			wrong(board, "timeout %" PRId64 " started %.1f ms after its cancel had returned 0",
			      atomic_load(&item->id), (double)(start->begun_us - item->cancelled_us) / 1e3);
		if (start->due_us < verdict->stopped.at_us)
			blow_feels(&verdict->killed, start, lease_us);
		else
			blow_feels(&verdict->stopped, start, lease_us);
	}
	for (unsigned i = 0; i < starts; i++) {
		const struct start *start = &board->start[i];

		if (atomic_load(&start->begun) && !is_near(&verdict->killed, start) &&
		    !is_near(&verdict->stopped, start))
			histogram_add(&verdict->late, (start->begun_us - start->due_us) * 1000);
	}
}

static void judge_item(struct verdict *verdict, struct board *board, unsigned number, const struct trace *trace,
		       unsigned effects, bool failed)
{
	const struct item *item = &board->item[number];
	unsigned mode = item->mode;
	bool cancelled = atomic_load(&item->fate) == CANCELLED;
	bool ran = mode == HWT_STORE_TRANSACTION ? effects > 0 : trace->ends > 0;

	if (atomic_load(&item->fate) == NOT_PUT) {
		if (trace->starts > 0 || effects > 0)
			wrong(board, "item %u was never accepted, and ran", number);
		return;
	}
	verdict->accepted[mode]++;
	verdict->cancelled[mode] += cancelled;
	verdict->ran[mode] += ran && !cancelled && !failed;
	verdict->again[mode] += trace->starts > 1 ? trace->starts - 1 : 0;
	verdict->lost[mode] += !ran && !cancelled && !failed;
	if (cancelled && (trace->healthy_ends > 0 || effects > 0))
		wrong(board, "timeout %" PRId64 " ran and was cancelled", atomic_load(&item->id));
	verdict->twice[mode] += trace->healthy_ends > 1 || effects > 1 || (cancelled && effects > 0) ||
				(trace->healthy_ends > 0 && failed) ||
				(mode == HWT_STORE_AT_MOST_ONCE && trace->starts > 1);
}

/*
 * Telling
 */

static void print_by_mode(const char *what, const unsigned *counts, bool good)
{
	printf("  %s %-12s %7u  %8u  %7u  %7u\n", ok_or_wrong(good), what, counts[0] + counts[1] + counts[2], counts[0],
	       counts[1], counts[2]);
}

static bool none(const unsigned *counts)
{
	return counts[0] + counts[1] + counts[2] == 0;
}

static void print_blow(const struct blow *blow, const char *what)
{
	printf("        worker %c was %s: what it held waited %.2f s at most\n", 'A' + (int)blow->worker, what,
	       (double)blow->longest_us / 1e6);
}

static void print_verdict(struct verdict *verdict, struct board *board, int64_t lease_us)
{
	printf("  %s%-18s     all  at least  at most   trans-\n%41s once     once   action%s\n", style.bold, "Timeouts",
	       "", style.plain);
	print_by_mode("accepted", verdict->accepted, atomic_load(&board->refused) == 0);
	print_by_mode("ran", verdict->ran, true);
	print_by_mode("cancelled", verdict->cancelled, true);
	printf("        %-12s %7u\n", "too late", atomic_load(&board->too_late));
	print_by_mode("failed", verdict->failed, verdict->failed[0] + verdict->failed[2] == 0);
	print_by_mode("began again", verdict->again, verdict->again[HWT_STORE_AT_MOST_ONCE] == 0);
	print_by_mode("lost", verdict->lost, none(verdict->lost));
	print_by_mode("ended twice", verdict->twice, none(verdict->twice));
	printf("\n");
	print_blow(&verdict->killed, "killed");
	print_blow(&verdict->stopped, "stopped");
	printf("        (the lease of %.0f s, and what the machine makes all wait)\n", (double)lease_us / 1e6);
	printf("\n  %sLateness%s of what no blow hit (start of the task after its due time)\n\n", style.bold,
	       style.plain);
	print_lateness(&verdict->late, HWT_MS(1));
	printf("\n");
	if (!none(verdict->lost))
		wrong(board, "timeouts were lost");
	if (!none(verdict->twice))
		wrong(board, "timeouts ended twice");
	if (verdict->early > 0)
		wrong(board, "%u tasks started before they were due", verdict->early);
	if (verdict->failed[0] + verdict->failed[2] > 0)
		wrong(board, "timeouts failed that run at least once");
}

/* The last word, and the exit status. */
static int print_last_word(struct board *board)
{
	unsigned wrongs = atomic_load(&board->wrongs);

	if (wrongs == 0) {
		printf("\n%sPASS%s  one worker died, one was frozen; nothing was lost, nothing ended twice\n",
		       style.good, style.plain);
		return 0;
	}
	printf("\n%sFAIL%s  %u thing%s went wrong\n", style.bad, style.plain, wrongs, wrongs == 1 ? "" : "s");
	for (unsigned i = 0; i < wrongs && i < WRONGS_KEPT; i++)
		printf("      %s\n", board->wrong[i]);
	if (wrongs > WRONGS_KEPT)
		printf("      and %u more\n", wrongs - WRONGS_KEPT);
	return 1;
}

#endif /* DEMO_STORE_VERDICT_H */
