/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mixed load that goes on and on: the memory, descriptors and threads of the process must not grow after the first
 * third.  HWT_SOAK_S sets the seconds; 2 in make check, 600 in make soak.
 */
#include "support.h"

#include <dirent.h>

#define THREADS 4
#define WINDOW 2000
#define GROWTH_MAX (INT64_C(24) << 20)

static atomic_uint over, warm;
static atomic_ullong operations, runs;

static void count_run(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	atomic_fetch_add(&runs, 1);
}

static unsigned entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	REQUIRE(dir != NULL);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* Counts the entries of a folder.  A joined thread may stay listed for a moment. */
static unsigned settled_entries(const char *path, unsigned wanted)
{
	unsigned count = entries(path);

	for (struct patience patience = PATIENCE("its entries"); count != wanted; count = entries(path))
		if (!patience_lasts(&patience, HWT_MS(10)))
			break;
	return count;
}

/* Keeps a window of timeouts, short and long, and cancels at random; a cancelled timeout may have ended long ago. */
static void *load(void *arg)
{
	hwt_timer *timer = *(hwt_timer **)arg;
	struct prng prng = { (uint64_t)(uintptr_t)&arg };
	static _Thread_local hwt_timeout window[WINDOW];
	unsigned long long done = 0;

	memset(window, 0, sizeof(window));
	while (!atomic_load(&over)) {
		for (int i = 0; i < 1000; i++) {
			hwt_timeout *slot = &window[prng_below(&prng, WINDOW)];
			int64_t delay_ns = prng_below(&prng, 8) == 0 ? prng_between(&prng, 0, HWT_MS(20)) : HWT_S(60);

			(void)hwt_cancel(*slot);
			CHECK_RC(hwt_new_timeout(timer, count_run, NULL, delay_ns, slot), 0);
		}
		done += 2000;
		/*
		 * While the worker has no processor, memory grows, and rightly so: so this thread waits for it now and
		 * then.
		 */
		if (done % 20000 == 0)
			wait_ticks(timer, 1, 0);
		if (done == 20000)
			atomic_fetch_add(&warm, 1);
	}
	for (int i = 0; i < WINDOW; i++)
		(void)hwt_cancel(window[i]);
	atomic_fetch_add(&operations, done);
	return NULL;
}

/* Makes a short-lived timer, as a program with a timer for each connection does. */
static void short_life(void)
{
	hwt_timer *timer = new_timer(HWT_MS(1), 64);

	for (int i = 0; i < 1000; i++)
		CHECK_RC(hwt_new_timeout(timer, count_run, NULL, HWT_S(1), NULL), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(nothing_grows)
{
	const char *wish = getenv("HWT_SOAK_S");
	int64_t seconds = wish != NULL ? strtol(wish, NULL, 10) : 2, begin_ns, settled = 0, most = 0;
	hwt_timer *timer = new_timer(HWT_MS(1), 512), *timers[THREADS] = { timer, timer, timer, timer };
	unsigned fds, threads, rounds = 0;
	struct crew crew;

	alarm((unsigned)seconds + HANG_S); /* this test may run longer than the others */
	crew_start(&crew, THREADS, load, timers, sizeof(timers[0]));
	REQUIRE(wait_count(&warm, THREADS)); /* waits until the worker exists, too */
	begin_ns = hwt_now();
	fds = entries("/proc/self/fd");
	threads = entries("/proc/self/task");
	for (; rounds < 9 || hwt_now() < begin_ns + HWT_S(seconds); rounds++) {
		int64_t rss;

		short_life();
		sleep_ms(20);
		rss = rss_bytes();
		if (rounds < 3 || hwt_now() < begin_ns + HWT_S(seconds) / 3)
			settled = rss > settled ? rss : settled;
		else
			most = rss > most ? rss : most;
		CHECK_INT(settled_entries("/proc/self/fd", fds), ==, fds);
		CHECK_INT(settled_entries("/proc/self/task", threads), ==, threads);
	}
	atomic_store(&over, 1);
	crew_join(&crew);
	if (!SANITIZED) /* sanitizers keep freed memory for a while */
		CHECK_INT(most, <, settled + GROWTH_MAX);
	CHECK_INT(hwt_pending_timeouts(timer), <, THREADS * WINDOW);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	printf("# %llu operations, %llu runs, %lld KiB after a third, %lld KiB at most afterwards\n",
	       (unsigned long long)atomic_load(&operations), (unsigned long long)atomic_load(&runs),
	       (long long)settled / 1024, (long long)most / 1024);
}

TEST_MAIN()
