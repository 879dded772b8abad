/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What demo.c tells at the end: what became of the clients, whether the server counted the same, how late its timeouts
 * were.
 */
#ifndef DEMO_SUMMARY_H
#define DEMO_SUMMARY_H

#include "demo_crowd.h"
#include "demo_print.h"
#include "demo_server.h"

static void print_role(const struct team *all, enum role role, unsigned total, const char *did, const char *outcome)
{
	printf("  %s %5u %-14s  %5u %s", ok_or_wrong(all->right[role] + all->held_up[role] == total), total, did,
	       all->right[role], outcome);
	if (all->late[role].count > 0)
		printf(", at most %.1f ms late", (double)all->late[role].max_ns / 1e6);
	if (all->held_up[role] > 0)
		printf("; %u more were kept from speaking in time by this busy machine", all->held_up[role]);
	putchar('\n');
}

static void print_clients(struct crowd *crowd, const struct team *all)
{
	const unsigned *total = crowd->total;
	unsigned held_up = all->held_up[TALKER] + all->held_up[SILENT] + all->held_up[DRIBBLER] + all->held_up[LEAVER];

	print_role(all, TALKER, total[TALKER], "kept talking", "stayed connected until the server was stopped");
	print_role(all, SILENT, total[SILENT], "fell silent", "closed by the idle timeout");
	print_role(all, DRIBBLER, total[DRIBBLER], "dribbled bytes", "closed by the request timeout");
	print_role(all, LEAVER, total[LEAVER], "left", "let go");
	printf("  %s %5u messages        %5u answered as they should be\n",
	       ok_or_wrong(all->sent == all->received || held_up > 0), all->sent, all->received);
}

static void expect(struct crowd *crowd, const char *what, int64_t counted, int64_t seen, int64_t tolerance)
{
	if (counted < seen - tolerance || counted > seen + tolerance)
		wrong(crowd, NULL, "the server counted %" PRId64 " %s, the clients saw %" PRId64, counted, what, seen);
}

/*
 * The server's counters against the clients', and against each other.  A client that was held up may have been closed
 * at the moment it acted, and then either side may be right about why.
 */
static void compare(struct crowd *crowd, const struct child *server, const struct team *all)
{
	static const char *const ends[] = { "peer", "idle", "request", "long", "memory", "open" };
	int64_t count = 0, doubtful = all->slow, ended = 0, fates;

	for (int role = 0; role < ROLES; role++) {
		count += crowd->total[role];
		doubtful += all->held_up[role];
	}
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		ended += child_number(server, ends[i]);
	expect(crowd, "connections", child_number(server, "accepted"), count, 0);
	expect(crowd, "ends of connections", ended, count, 0);
	expect(crowd, "idle timeouts", child_number(server, "idle"), all->farewells[IDLE_FAREWELL], doubtful);
	expect(crowd, "request timeouts", child_number(server, "request"), all->farewells[REQUEST_FAREWELL], doubtful);
	expect(crowd, "leavers", child_number(server, "peer"), all->right[LEAVER], doubtful);
	expect(crowd, "connections at its stop", child_number(server, "open"), all->right[TALKER], doubtful);
	if (doubtful == 0)
		expect(crowd, "answers", child_number(server, "lines"), all->received, 0);
	fates = child_number(server, "cancelled") + child_number(server, "fired") + child_number(server, "returned");
	if (fates != child_number(server, "set"))
		wrong(crowd, NULL, "of %" PRId64 " timeouts %" PRId64 " were cancelled, fired or returned",
		      child_number(server, "set"), fates);
}

static void print_server(const struct child *server)
{
	double seconds = (double)child_number(server, "elapsed_ns") / 1e9;
	double cpu_s = (double)child_number(server, "cpu_us") / 1e6;
	double set = (double)child_number(server, "set"), cancelled = (double)child_number(server, "cancelled");
	double moved = (double)child_number(server, "moved");

	printf("\n  %sTimeouts%s   %8.0f set        %6.0f a second\n", style.bold, style.plain, set, set / seconds);
	printf("             %8.0f moved      %6.0f a second\n", moved, moved / seconds);
	printf("             %8.0f cancelled  %6.0f a second, %.1f %%\n", cancelled, cancelled / seconds,
	       set > 0 ? 100 * cancelled / set : 0);
	printf("             %8" PRId64 " fired\n", child_number(server, "fired"));
	printf("             %8" PRId64 " pending when the server stopped, and given back\n",
	       child_number(server, "returned"));
	printf("  %sServer%s     %8.2f s of CPU in %.1f s: %.1f %% of one core\n", style.bold, style.plain, cpu_s,
	       seconds, 100 * cpu_s / seconds);
	printf("             %8.1f MiB of memory at its peak\n", (double)child_number(server, "rss_kib") / 1024);
}

static void print_summary(struct crowd *crowd, const struct child *server, const struct team *all)
{
	static struct histogram late;
	const char *text = child_text(server, "lateness");

	print_clients(crowd, all);
	if (text == NULL || !histogram_read(&late, text)) {
		wrong(crowd, NULL, "the server left no report");
		return;
	}
	compare(crowd, server, all);
	if (late.negative > 0)
		wrong(crowd, NULL, "%" PRIu64 " tasks started before their deadline", late.negative);
	printf("\n  %sLateness%s of the timeouts that fired (start of the task after its deadline)\n\n", style.bold,
	       style.plain);
	print_lateness(&late, child_number(server, "tick_ns"));
	printf("; a tick is %g ms\n", (double)child_number(server, "tick_ns") / 1e6);
	print_server(server);
}

/* The last word, and the exit status. */
static int print_verdict(struct crowd *crowd)
{
	unsigned wrongs = atomic_load(&crowd->wrongs[0]) + atomic_load(&crowd->wrongs[1]), shown = 0;

	if (wrongs == 0) {
		printf("\n%sPASS%s  nobody was closed early, nobody was forgotten\n", style.good, style.plain);
		return 0;
	}
	printf("\n%sFAIL%s  %u thing%s went wrong\n", style.bad, style.plain, wrongs, wrongs == 1 ? "" : "s");
	for (int of = 0; of < 2; of++)
		for (unsigned i = 0; i < WRONGS_KEPT && i < atomic_load(&crowd->wrongs[of]); i++, shown++)
			printf("      %s\n", crowd->wrong[of][i]);
	if (wrongs > shown)
		printf("      and %u more\n", wrongs - shown);
	return 1;
}

#endif /* DEMO_SUMMARY_H */
