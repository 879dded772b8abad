/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer under load, and what hwt_timer_stats says about it: a live table, then the same as Prometheus text.
 *
 *     $ build/examples/stats 5             a table for five seconds
 *     $ build/examples/stats -p 1          only the text for Prometheus, after a second
 *
 * The load is a thread that schedules 100 to 600 ms ahead and cancels nine of ten a moment later.
 */
#include <hwt.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST 100
#define PER_SECOND 10

static atomic_bool stopping;

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "stats: %s: %s\n", what, strerror(rc));
	exit(1);
}

static void nothing(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
}

static void sleep_ns(int64_t ns)
{
	struct timespec left = { (time_t)(ns / HWT_S(1)), (long)(ns % HWT_S(1)) };

	nanosleep(&left, NULL);
}

static void *make_load(void *arg)
{
	hwt_timeout timeouts[BURST];
	hwt_timer *timer = arg;

	for (unsigned round = 0; !atomic_load(&stopping); round++) {
		for (unsigned i = 0; i < BURST; i++)
			check("schedule", hwt_new_timeout(timer, nothing, NULL, HWT_MS(100 + (round * 37 + i) % 500),
							  &timeouts[i]));
		sleep_ns(HWT_MS(1));
		for (unsigned i = 0; i < BURST; i++)
			if (i % 10 != 0)
				(void)hwt_cancel(timeouts[i]);
	}
	return NULL;
}

static hwt_stats look(const hwt_timer *timer)
{
	hwt_stats stats = { .size = sizeof(stats) };

	check("stats", hwt_timer_stats(timer, &stats));
	return stats;
}

/* The least lateness that `percent` of the tasks did not exceed, as the histogram knows it. */
static double percentile_us(const hwt_stats *stats, double percent)
{
	uint64_t all = 0, below = 0;
	unsigned i = 0;

	for (unsigned k = 0; k < 32; k++)
		all += stats->lateness[k];
	for (; i < 31; i++) {
		below += stats->lateness[i];
		if ((double)below >= (double)all * percent / 100)
			break;
	}
	return (double)(UINT64_C(1) << i);
}

static void print_row(const hwt_stats *now, const hwt_stats *before, unsigned row)
{
	if (row % 20 == 0)
		printf("%9s %9s %9s %9s %9s %9s %10s %10s\n", "pending", "new/s", "cancel/s", "run/s", "wakes/s", "KiB",
		       "p50 late", "p99 late");
	printf("%9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %7.0f us %7.0f us\n",
	       now->pending, (now->accepted - before->accepted) * PER_SECOND,
	       (now->cancelled - before->cancelled) * PER_SECOND, (now->runs - before->runs) * PER_SECOND,
	       (now->wakeups - before->wakeups) * PER_SECOND, now->bytes / 1024, percentile_us(now, 50),
	       percentile_us(now, 99));
}

static void print_number(const char *name, const char *type, const char *help, uint64_t value)
{
	printf("# HELP hwt_%s %s\n# TYPE hwt_%s %s\nhwt_%s %" PRIu64 "\n", name, help, name, type, name, value);
}

static void print_ends(const hwt_stats *stats)
{
	printf("# HELP hwt_timeouts_total Timeouts by what became of them.\n# TYPE hwt_timeouts_total counter\n");
	printf("hwt_timeouts_total{end=\"completed\"} %" PRIu64 "\n", stats->completed);
	printf("hwt_timeouts_total{end=\"cancelled\"} %" PRIu64 "\n", stats->cancelled);
	printf("hwt_timeouts_total{end=\"returned\"} %" PRIu64 "\n", stats->returned);
	printf("# HELP hwt_refused_total Timeouts that were refused.\n# TYPE hwt_refused_total counter\n");
	printf("hwt_refused_total{why=\"limit\"} %" PRIu64 "\n", stats->refused_limit);
	printf("hwt_refused_total{why=\"stopped\"} %" PRIu64 "\n", stats->refused_stopped);
	printf("hwt_refused_total{why=\"memory\"} %" PRIu64 "\n", stats->refused_memory);
}

/* There is no sum of lateness: the worker does not add it up. */
static void print_lateness(const hwt_stats *stats)
{
	uint64_t below = 0;

	printf(
	    "# HELP hwt_lateness_seconds Tasks by how late their tick began.\n# TYPE hwt_lateness_seconds histogram\n");
	for (unsigned i = 0; i < 31; i++) {
		below += stats->lateness[i];
		printf("hwt_lateness_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", (double)(UINT64_C(1) << i) / 1e6, below);
	}
	below += stats->lateness[31];
	printf("hwt_lateness_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\nhwt_lateness_seconds_count %" PRIu64 "\n", below,
	       below);
}

static void print_prometheus(const hwt_stats *stats)
{
	print_ends(stats);
	print_number("pending", "gauge", "Timeouts that wait.", stats->pending);
	print_number("accepted_total", "counter", "Timeouts accepted.", stats->accepted);
	print_number("ticks_total", "counter", "Ticks at which something was due.", stats->ticks);
	print_number("wakeups_total", "counter", "Times that the worker woke up.", stats->wakeups);
	print_number("transfers_total", "counter", "Operations taken out of the lanes.", stats->transfers);
	print_number("backlog_max", "gauge", "Most operations found waiting at once.", stats->backlog_max);
	print_number("memory_bytes", "gauge", "Memory held.", stats->bytes);
	print_lateness(stats);
}

int main(int argc, char **argv)
{
	bool only_text = argc > 1 && strcmp(argv[1], "-p") == 0;
	int seconds = argc > 1 + only_text ? atoi(argv[1 + only_text]) : 3;
	hwt_config config = HWT_CONFIG_INIT;
	hwt_stats stats, before;
	hwt_timer *timer;
	pthread_t load;

	config.tick_duration_ns = HWT_MS(1);
	check("timer", hwt_timer_create(&timer, &config));
	check("thread", pthread_create(&load, NULL, make_load, timer));
	before = look(timer);
	for (unsigned row = 0; row < (unsigned)seconds * PER_SECOND; row++, before = stats) {
		sleep_ns(HWT_S(1) / PER_SECOND);
		stats = look(timer);
		if (!only_text)
			print_row(&stats, &before, row);
	}
	atomic_store(&stopping, true);
	pthread_join(load, NULL);
	check("stop", hwt_timer_stop(timer, NULL));
	stats = look(timer);
	print_prometheus(&stats);
	check("destroy", hwt_timer_destroy(timer));
	return 0;
}
