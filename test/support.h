/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by several test programs: bounded waits, threads, pseudo-random numbers, memory in use.
 *
 *   HWT_SEED   the seed of the random tests, as they print it; default: the same each time, seeds.h
 *   HWT_SCALE  per cent of the amount of work; default: 100, under a sanitizer 25
 */
#ifndef HWT_TEST_SUPPORT_H
#define HWT_TEST_SUPPORT_H

#include <hwt.h>

#include "wheels.h"

#include "test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define PATIENCE_NS HWT_S(300) /* only a hang lasts that long */
#define ENOUGH_NS HWT_S(40)    /* after this time a random test on a busy machine begins no further round */
#define HANG_S 1800

/* A value of errno that no call of the library sets by chance. */
#define ERRNO_MARK 4711

/* Checks that a call returns `want` and leaves errno alone. */
#define CHECK_RC(call, want)                                                                                           \
	do {                                                                                                           \
		errno = ERRNO_MARK;                                                                                    \
		int64_t rc_ = (int64_t)(call);                                                                         \
		CHECK_INT(errno, ==, ERRNO_MARK);                                                                      \
		if (rc_ != (want))                                                                                     \
			test_fail(__FILE__, __LINE__, #call " == " #want, rc_, (want), true);                          \
	} while (0)

/* A test that hangs ends with a signal, also outside of prove. */
__attribute__((constructor)) static void support_limit_time(void)
{
	alarm(HANG_S);
}

/*
 * Time
 */

static inline void sleep_ns(int64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / HWT_S(1)), .tv_nsec = (long)(ns % HWT_S(1)) };

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static inline void sleep_ms(int64_t ms)
{
	sleep_ns(HWT_MS(ms));
}

/* Reads the system's clock: hwt_now may read a clock of the test's own, which stands still during a wait. */
static inline int64_t system_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return HWT_S(now.tv_sec) + now.tv_nsec;
}

/* A wait: where, for what, since when, and the time of the last progress. */
struct patience {
	const char *file, *what;
	int line;
	int64_t begin_ns, moved_ns;
};

#define PATIENCE(what)                                                                                                 \
	{                                                                                                              \
		__FILE__, what, __LINE__, system_now(), system_now()                                                   \
	}
#define PATIENT(what) ((struct patience)PATIENCE(what))

/* Waits for a moment.  Returns false once there has been no progress for PATIENCE_NS: the test hangs. */
static inline bool patience_lasts(struct patience *patience, int64_t pause_ns)
{
	int64_t now_ns = system_now();

	test_waited(patience->file, patience->line, patience->what, now_ns - patience->begin_ns);
	if (now_ns - patience->moved_ns > PATIENCE_NS)
		return false;
	if (pause_ns > 0)
		sleep_ns(pause_ns);
	return true;
}

/* Notes progress: a slow test does not hang. */
static inline void patience_moved(struct patience *patience)
{
	patience->moved_ns = system_now();
}

/* Waits until the counter has reached target, and returns true; or false if the counter stands still for too long. */
#define wait_count(counter, target) wait_count_in(PATIENT(#counter " >= " #target), counter, target)
static inline bool wait_count_in(struct patience patience, atomic_uint *counter, unsigned target)
{
	for (unsigned seen = atomic_load(counter), now; (now = atomic_load(counter)) < target; seen = now) {
		if (now != seen)
			patience_moved(&patience);
		if (!patience_lasts(&patience, HWT_US(200)))
			return false;
	}
	return true;
}

/*
 * Waits until a timeout has ended, in any way.  If other threads schedule, its memory may serve them right afterwards.
 */
#define wait_ended(timeout) wait_ended_in(PATIENT(#timeout " ends"), timeout)
static inline bool wait_ended_in(struct patience patience, hwt_timeout timeout)
{
	for (hwt_state state = HWT_PENDING; state == HWT_PENDING || state == HWT_RUNNING;) {
		if (!patience_lasts(&patience, state == HWT_PENDING ? HWT_US(200) : 0))
			return false;
		state = hwt_timeout_state(timeout);
	}
	return true;
}

#define wait_none_pending(timer) wait_none_pending_in(PATIENT("none of " #timer " is pending"), timer)
static inline bool wait_none_pending_in(struct patience patience, const hwt_timer *timer)
{
	while (hwt_pending_timeouts(timer) != 0)
		if (!patience_lasts(&patience, HWT_US(200)))
			return false;
	return true;
}

#define wait_readable(fd) wait_readable_in(PATIENT(#fd " is readable"), fd)
static inline bool wait_readable_in(struct patience patience, int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	while (poll(&wanted, 1, 100) != 1)
		if (!patience_lasts(&patience, 0))
			return false;
	return true;
}

/*
 * Timers and tasks
 */

static inline hwt_timer *new_timer(int64_t tick_ns, uint32_t ticks_per_wheel)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = tick_ns;
	config.ticks_per_wheel = ticks_per_wheel;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static inline hwt_timer *flagged_timer(uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.flags = flags;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

/* Makes a timer that the test drives. */
static inline hwt_timer *driven_timer(void)
{
	return flagged_timer(HWT_CALLER_DRIVEN);
}

/* Makes a timer on a virtual clock, which has been told 0. */
static inline hwt_timer *virtual_timer(void)
{
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK);

	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	return timer;
}

/* Returns statistics, and checks that the numbers of timeouts add up. */
static inline hwt_stats stats_of(const hwt_timer *timer)
{
	hwt_stats stats = { .size = sizeof(stats) };

	CHECK_RC(hwt_timer_stats(timer, &stats), 0);
	CHECK_INT(stats.size, ==, sizeof(stats));
	CHECK_INT(stats.accepted, ==,
		  stats.completed + stats.cancelled + stats.returned + stats.pending + stats.running);
	return stats;
}

/* A task that counts its runs. */
static inline void count_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* A task that checks that it is not early. */
struct run {
	int64_t not_before_ns;
	atomic_uint ran;
};

static inline void run_task(hwt_timeout timeout, void *arg)
{
	struct run *run = arg;

	CHECK(hwt_is_expired(timeout));
	CHECK_INT(hwt_now(), >=, run->not_before_ns);
	atomic_fetch_add(&run->ran, 1);
}

/*
 * Returns when the worker has passed some ticks of at most tick_ns: what is promised "two ticks after" has then been
 * done, however busy the machine is.
 */
static inline void wait_ticks(hwt_timer *timer, unsigned ticks, int64_t tick_ns)
{
	for (unsigned i = 0; i < ticks; i++) {
		atomic_uint ran = 0;

		REQUIRE(hwt_new_timeout(timer, count_task, &ran, tick_ns, NULL) == 0);
		REQUIRE(wait_count(&ran, 1));
	}
}

/*
 * Threads
 */

#define CREW_MAX 64

struct crew {
	pthread_t threads[CREW_MAX];
	unsigned count;
};

/* Starts count threads; the i-th gets args + i * stride. */
static inline void crew_start(struct crew *crew, unsigned count, void *(*run)(void *), void *args, size_t stride)
{
	REQUIRE(count <= CREW_MAX);
	crew->count = count;
	for (unsigned i = 0; i < count; i++)
		REQUIRE(pthread_create(&crew->threads[i], NULL, run, args ? (char *)args + i * stride : NULL) == 0);
}

static inline void crew_join(struct crew *crew)
{
	for (unsigned i = 0; i < crew->count; i++)
		REQUIRE(pthread_join(crew->threads[i], NULL) == 0);
	crew->count = 0;
}

/*
 * Numbers: splitmix64, one state a thread
 */

struct prng {
	uint64_t state;
};

static inline uint64_t prng_next(struct prng *prng)
{
	uint64_t x = prng->state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline uint64_t prng_below(struct prng *prng, uint64_t limit)
{
	return prng_next(prng) % limit;
}

/* Returns a number in [low, high]. */
static inline int64_t prng_between(struct prng *prng, int64_t low, int64_t high)
{
	return low + (int64_t)prng_below(prng, (uint64_t)(high - low) + 1);
}

/* The seed of a test, printed so that a failure can be repeated. */
static inline uint64_t test_seed(const char *test)
{
	static const struct {
		const char *test;
		uint64_t seed;
		const char *found;
	} known[] = {
#include "seeds.h"
	};
	const char *wish = getenv("HWT_SEED");
	uint64_t seed = 1;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].test, test) == 0)
			seed = known[i].seed;
	seed = wish ? strtoull(wish, NULL, 0) : seed;

	printf("# %s: HWT_SEED=%" PRIu64 "\n", test, seed);
	return seed;
}

static inline unsigned scaled(unsigned amount)
{
	const char *wish = getenv("HWT_SCALE");
	unsigned long percent = wish ? strtoul(wish, NULL, 10) : SANITIZED ? 25 : 100;
	unsigned long result = amount * percent / 100;

	return result > 0 ? (unsigned)result : 1;
}

/*
 * Memory
 */

/*
 * Returns the resident bytes of this process, from smaps_rollup, which walks the page tables: the counters in statm are
 * kept per thread or CPU and lag behind by up to some hundred KiB.
 */
static inline int64_t rss_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	int64_t kib = -1;

	if (!file)
		return -1;
	for (int i = 0; i < 100 && fgets(line, sizeof(line), file); i++)
		if (sscanf(line, "Rss: %" SCNd64, &kib) == 1)
			break;
	fclose(file);
	return kib * 1024;
}

#endif
