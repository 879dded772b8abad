/* SPDX-License-Identifier: BSD-2-Clause */
/* See measure.h. */
#include "measure.h"

#include <limits.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t others_cpu_ns(void)
{
	int64_t all_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	return all_ns - thread_cpu_ns();
}

void sleep_until(int64_t when_ns)
{
	struct timespec ts = { .tv_sec = when_ns / NS_PER_S, .tv_nsec = when_ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void sleep_ns(int64_t duration_ns)
{
	sleep_until(now_ns() + duration_ns);
}

/*
 * A library does not say when its worker has come to rest.  A busy worker uses a core, or its share of a core on a busy
 * machine; an idle worker that ticks uses some hundredths.  A fifth of a core tells them apart.
 */
void settle(int64_t tick_ns)
{
	int64_t window_ns = tick_ns > 20 * NS_PER_MS ? tick_ns : 20 * NS_PER_MS;
	int64_t limit_ns = now_ns() + 5 * NS_PER_S;

	sleep_ns(2 * tick_ns + 10 * NS_PER_MS);
	for (int quiet = 0; quiet < 2 && now_ns() < limit_ns;) {
		int64_t begin_ns = now_ns(), cpu_ns = others_cpu_ns();

		sleep_ns(window_ns);
		quiet = others_cpu_ns() - cpu_ns < (now_ns() - begin_ns) / 5 ? quiet + 1 : 0;
	}
}

size_t rss_bytes(void)
{
	unsigned long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

size_t rss_peak_bytes(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %lu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

uint64_t voluntary_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw;
}

void *touched(size_t count, size_t size)
{
	size_t bytes = count * size + 1;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("bench: mmap");
		_exit(1);
	}
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 0, bytes); /* reading is not enough: a page that was only read is the shared page of zeros */
	return memory;
}

void touch_heap(size_t bytes)
{
	const size_t block = (size_t)16 << 20; /* smaller than blocks for which malloc calls mmap */
	void *blocks[256];
	size_t n = 0;

	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (; n * block < bytes && n < sizeof(blocks) / sizeof(*blocks); n++) {
		blocks[n] = malloc(block);
		if (!blocks[n])
			break;
		(void)madvise((void *)(((uintptr_t)blocks[n] + 4095) & ~(uintptr_t)4095), block - 4096, MADV_HUGEPAGE);
		memset(blocks[n], 1, block);
	}
	while (n > 0)
		free(blocks[--n]);
}

void untouch(void *memory, size_t count, size_t size)
{
	munmap(memory, count * size + 1);
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static int compare_ns(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

struct summary summarise(double *values, size_t count)
{
	struct summary summary = { 0, 0, 0, false };

	if (count == 0)
		return summary;
	qsort(values, count, sizeof(*values), compare_doubles);
	summary.median = (values[(count - 1) / 2] + values[count / 2]) / 2;
	summary.min = values[0];
	summary.max = values[count - 1];
	summary.wide = summary.max > 2 * summary.min;
	return summary;
}

void sort_ns(int64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_ns);
}

int64_t quantile(const int64_t *sorted, size_t count, double q)
{
	size_t at = (size_t)(q * (double)count);

	return count == 0 ? 0 : sorted[at < count ? at : count - 1];
}

/* A floor is the least of several looks: other load on the machine can only add to it. */
#define FLOOR_LOOKS 20

double floor_least(double (*look)(void))
{
	double least = look();

	for (int i = 1; i < FLOOR_LOOKS; i++) {
		double one = look();

		least = one < least ? one : least;
	}
	return least;
}

double floor_clock_ns(void)
{
	enum { CALLS = 100000 };
	int64_t begin_ns = now_ns(), sum = 0;

	for (int i = 0; i < CALLS; i++)
		sum += now_ns() & 1;
	return (double)(now_ns() - begin_ns - (sum < 0)) / CALLS;
}

double floor_exchange_ns(void)
{
	enum { CALLS = 200000 };
	static _Alignas(UNSHARED) atomic_uint word;
	int64_t begin_ns = now_ns();

	for (unsigned i = 0; i < CALLS; i++)
		atomic_exchange_explicit(&word, i, memory_order_acq_rel);
	return (double)(now_ns() - begin_ns) / CALLS;
}

double floor_line_ns(void)
{
	enum { LINES = 1 << 19, LINE = 64 }; /* 32 MB */
	char *memory = touched(LINES, LINE);
	int64_t begin_ns = now_ns();

	for (size_t i = 0; i < LINES; i++)
		*(volatile char *)(memory + i * LINE) = 1;
	begin_ns = now_ns() - begin_ns;
	untouch(memory, LINES, LINE);
	return (double)begin_ns / LINES;
}

/*
 * Pins the thread to the index-th core that this process may use, modulo their number.  A failure only widens the
 * spread of the figures.
 */
static void pin(unsigned index)
{
	cpu_set_t allowed, one;
	unsigned count, nth;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) == 0)
		return;
	count = (unsigned)CPU_COUNT(&allowed);
	nth = index % count;
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
		return;
	}
}

static void *member_main(void *arg)
{
	struct member *me = arg;

	if (me->team->pinned)
		pin(me->index);
	for (;;) {
		int64_t cpu_ns;

		pthread_barrier_wait(&me->team->barrier);
		if (!me->team->work)
			return NULL;
		cpu_ns = thread_cpu_ns();
		me->begin_ns = now_ns();
		me->team->work(me);
		me->end_ns = now_ns();
		me->cpu_ns = thread_cpu_ns() - cpu_ns;
		pthread_barrier_wait(&me->team->barrier);
	}
}

void team_start(struct team *team, unsigned size, size_t count, uint64_t seed, bool pinned, void *shared)
{
	team->size = size;
	team->pinned = pinned;
	team->work = NULL;
	team->members = aligned_alloc(UNSHARED, size * sizeof(*team->members));
	if (!team->members || pthread_barrier_init(&team->barrier, NULL, size + 1) != 0) {
		fputs("bench: no memory for a team\n", stderr);
		_exit(1);
	}
	memset(team->members, 0, size * sizeof(*team->members));
	for (unsigned i = 0; i < size; i++) {
		struct member *member = &team->members[i];

		member->shared = shared;
		member->team = team;
		member->index = i;
		member->first = count * i / size;
		member->end = count * (i + 1) / size;
		member->rng = rng_seed(seed * 1000 + i);
		if (pthread_create(&member->thread, NULL, member_main, member) != 0) {
			fputs("bench: no thread for a team\n", stderr);
			_exit(1);
		}
	}
}

struct phase team_phase(struct team *team, team_work *work)
{
	struct phase phase = { 0, 0, 0, 0, 0 };
	int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;

	team->work = work;
	pthread_barrier_wait(&team->barrier);
	pthread_barrier_wait(&team->barrier);
	for (unsigned i = 0; i < team->size; i++) {
		const struct member *member = &team->members[i];

		begin_ns = member->begin_ns < begin_ns ? member->begin_ns : begin_ns;
		end_ns = member->end_ns > end_ns ? member->end_ns : end_ns;
		phase.cpu_ns += member->cpu_ns;
		phase.accepted += member->accepted;
		phase.cancelled += member->cancelled;
		phase.error = member->error ? member->error : phase.error;
	}
	phase.elapsed_ns = end_ns - begin_ns;
	return phase;
}

void team_end(struct team *team)
{
	team->work = NULL;
	pthread_barrier_wait(&team->barrier);
	for (unsigned i = 0; i < team->size; i++)
		pthread_join(team->members[i].thread, NULL);
	pthread_barrier_destroy(&team->barrier);
	free(team->members);
}
