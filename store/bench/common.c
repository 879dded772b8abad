/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See common.h.
 */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASK_US 20000

const char *url, *schema;
unsigned n = 50000, kills = 20, processes = 16, kind_count = 1, thread_count = 64, seconds;
int64_t lease_ns;
struct shared *shared;
bool tasks_are_slow;
unsigned shards, mode;
int64_t horizon_ns;
unsigned (*kind_of)(unsigned number);
unsigned group_count;
int (*priority_of)(unsigned number);
const char *(*group_of)(unsigned number);
hwt_store_task *task = note_start;
unsigned task_threads;

void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "store_bench: %s: %s: %s\n", what, strerror(rc), hwt_store_error());
	exit(1);
}

int64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void sleep_us(int64_t us)
{
	if (us > 0)
		nanosleep(&(struct timespec){ (time_t)(us / 1000000), (long)(us % 1000000) * 1000 }, NULL);
}

void print_figure(const char *figure, const char *unit, double value)
{
	printf("%s %s %.6g\n", figure, unit, value);
	fflush(stdout); /* what is measured stays measured if the rest takes too long */
}

int64_t random_us(unsigned number, int64_t range_us)
{
	uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	return atomic_load(&shared->started_us) + (int64_t)(x % (uint64_t)range_us);
}

int64_t random_due_us(unsigned number)
{
	return random_us(number, (int64_t)n * 1000000 / RATE);
}

int64_t noted_due_us(unsigned number)
{
	return shared->due_us[number];
}

unsigned in_turn(unsigned number)
{
	return number % kind_count;
}

/*
 * Stores
 */

int note_start(const hwt_store_run *run, void *ctx)
{
	unsigned number;

	(void)ctx;
	memcpy(&number, run->data, sizeof(number));
	if (atomic_fetch_add(&shared->starts[number], 1) == 0) {
		shared->begun_us[number] = clock_us(CLOCK_REALTIME);
		shared->due_us[number] = run->due_us;
		atomic_fetch_add(&shared->ran, 1);
	}
	if (tasks_are_slow) {
		sleep_us(TASK_US);
		atomic_fetch_add(&shared->ends[number], 1);
	}
	return 0;
}

hwt_store *open_store(void)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	hwt_store *store;
	char error[256];

	config.schema = schema;
	config.lease_ns = lease_ns;
	config.threads = task_threads;
	if (hwt_store_open(&store, url, &config, error, sizeof(error)) != 0) {
		fprintf(stderr, "store_bench: %s\n", error);
		exit(1);
	}
	return store;
}

static const char *kind_name(unsigned number)
{
	static char names[KINDS_MAX][16];

	if (number == 0)
		return KIND;
	snprintf(names[number], sizeof(names[number]), KIND "%u", number);
	return names[number];
}

void register_kinds(hwt_store *store)
{
	for (unsigned i = 0; i < kind_count; i++) {
		hwt_store_kind kind = HWT_STORE_KIND_INIT;

		kind.name = kind_name(i);
		kind.task = task;
		kind.shards = shards;
		kind.mode = mode;
		kind.horizon_ns = horizon_ns;
		check("register", hwt_store_register(store, &kind));
	}
}

hwt_store *start_store(void)
{
	hwt_store *store = open_store();

	register_kinds(store);
	check("start", hwt_store_start(store));
	return store;
}

hwt_store_stats read_stats(hwt_store *store)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	check("stats", hwt_store_read_stats(store, &stats));
	return stats;
}

static unsigned shards_held(hwt_store *store)
{
	return (unsigned)read_stats(store).shards_held;
}

void wait_for_shards(hwt_store *store, unsigned least, unsigned most)
{
	for (int i = 0; shards_held(store) < least || shards_held(store) > most; i++) {
		if (i == 30000)
			check("shards", ETIMEDOUT);
		sleep_us(10000);
	}
}

void put_range(hwt_store *store, unsigned first, unsigned count, int64_t (*due_us)(unsigned number))
{
	static char payload[BATCH][PAYLOAD];
	static hwt_store_spec specs[BATCH];
	static char keys[BATCH][12], groups[BATCH][12];
	int rc;

	for (unsigned from = 0; from < count; from += BATCH) {
		unsigned batch = count - from < BATCH ? count - from : BATCH;

		for (unsigned i = 0; i < batch; i++) {
			unsigned number = first + from + i;

			memcpy(payload[i], &number, sizeof(number));
			specs[i] = (hwt_store_spec)HWT_STORE_SPEC_INIT;
			specs[i].kind = kind_name(kind_of != NULL ? kind_of(number) : 0);
			specs[i].data = payload[i];
			specs[i].len = PAYLOAD;
			if (group_count > 0) {
				snprintf(groups[i], sizeof(groups[i]), "g%u", number % group_count);
				specs[i].group = groups[i];
			}
			if (group_of != NULL)
				specs[i].group = group_of(number);
			if (priority_of != NULL)
				specs[i].priority = priority_of(number);
			if (tasks_are_slow) { /* what is left is known by its key */
				snprintf(keys[i], sizeof(keys[i]), "%u", number);
				specs[i].key = keys[i];
			}
			if (due_us != NULL) {
				specs[i].flags = HWT_STORE_ABSOLUTE;
				specs[i].due_us = due_us(number);
			}
		}
		do /* another process may stand still with SQLite's lock */
			rc = hwt_store_put_many(store, specs, batch, NULL);
		while (rc == EAGAIN);
		check("put_many", rc);
	}
}

void wait_for_runs(unsigned count, int64_t patience_us)
{
	int64_t end_us = clock_us(CLOCK_MONOTONIC) + patience_us;

	while (atomic_load(&shared->ran) < count && clock_us(CLOCK_MONOTONIC) < end_us)
		sleep_us(1000);
}

hwt_store_spec in_an_hour(void)
{
	static const char payload[PAYLOAD];
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;

	spec.kind = KIND;
	spec.data = payload;
	spec.len = sizeof(payload);
	spec.delay_ns = HWT_S(3600);
	return spec;
}

void check_law(unsigned count, unsigned again)
{
	unsigned lost = 0, twice = 0, early = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned starts = atomic_load(&shared->starts[i]);

		lost += starts == 0;
		twice += starts > 1;
		early += starts > 0 && shared->begun_us[i] < shared->due_us[i];
	}
	if (lost > 0 || twice > again || early > 0) {
		fprintf(stderr, "store_bench: %u lost, %u ran twice, %u early\n", lost, twice, early);
		exit(1);
	}
}

void check_kept(unsigned count)
{
	unsigned ran = 0, early = 0;
	void *user = user_open();
	int64_t kept = user_sql(user, "select count(*) from %s_timeout", schema);

	user_close(user);
	for (unsigned i = 0; i < count; i++) {
		ran += atomic_load(&shared->starts[i]) > 0;
		early += atomic_load(&shared->starts[i]) > 0 && shared->begun_us[i] < shared->due_us[i];
	}
	if (ran == 0 || ran + kept < count || early > 0) {
		fprintf(stderr, "store_bench: of %u %u ran and %lld are kept, %u early\n", count, ran, (long long)kept,
			early);
		exit(1);
	}
}

int compare_us(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

void print_lateness(const char *name, unsigned first, unsigned count)
{
	int64_t *late_us = malloc(count * sizeof(*late_us));
	char figure[64];

	check("memory", late_us != NULL ? 0 : ENOMEM);
	for (unsigned i = 0; i < count; i++)
		late_us[i] = shared->begun_us[first + i] - shared->due_us[first + i];
	qsort(late_us, count, sizeof(*late_us), compare_us);
	snprintf(figure, sizeof(figure), "%s_p50", name);
	print_figure(figure, "ms", (double)late_us[count / 2] / 1e3);
	snprintf(figure, sizeof(figure), "%s_p99", name);
	print_figure(figure, "ms", (double)late_us[(uint64_t)count * 99 / 100] / 1e3);
	snprintf(figure, sizeof(figure), "%s_max", name);
	print_figure(figure, "ms", (double)late_us[count - 1] / 1e3);
	free(late_us);
}
