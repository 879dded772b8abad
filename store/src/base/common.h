/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every file of the store uses: the text of a failure, memory, clocks, names.  Private names begin with hwts_.
 *
 * The store includes hwt.h and nothing else of libhwt.  store/src/ has ten rooms.  A file includes its own room and
 * those below it; the path in the #include shows which:
 *
 *   calls   what users call: open, start, register, put, change, many, read, rules, stats, prometheus
 *   share   which shards are this process's: share takes and renews them, control is the thread that does it.  why:
 *           why what is due has not started
 *   runs    beginner, begun, stale, locked, workers, pulled, poll, ender, ended: from a begin to an end that the
 *           database has and that the program has been told of
 *   ahead   reading ahead: looks, sweeps, refills of groups and rulings of their rules, and what they found
 *   window  what is due soon, in memory
 *   store   struct hwt_store, its lock and threads, and parts that every room above uses: kinds, shards, clock, conns
 *   db      beside all from store up: SQLite and PostgreSQL, which fill the table of functions in rows/engine.h
 *   rows    what is done to rows, as steps over a table of statements
 *   groups  turns: what groups have due, and in which order
 *   base    failure text, memory, clocks; calendar over cron, zone and tzif: the times of a cron line
 */
#ifndef HWTS_COMMON_H
#define HWTS_COMMON_H

#include <hwt_store.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#define HWTS_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HWTS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HWTS_MAX(a, b) ((a) > (b) ? (a) : (b))
#define HWTS_S_US INT64_C(1000000)

#define HWTS_NAME_MAX 63    /* bytes of a kind's name */
#define HWTS_KEY_MAX 255    /* bytes of a key, and of a group */
#define HWTS_MEMBER_MAX 127 /* bytes of a process's name */
#define HWTS_ERROR_MAX 255  /* bytes of a timeout's error */
#define HWTS_BUCKET_BITS 10
#define HWTS_BUCKETS (1 << HWTS_BUCKET_BITS)
#define HWTS_PRIORITY_MAX 100
#define HWTS_SHARDS_MAX 1024
#define HWTS_NEVER INT64_MAX /* a time that does not come */

/* The latest time that is accepted, the year 10000; it keeps sums of times and delays far from overflow. */
#define HWTS_LATEST_US INT64_C(253402300800000000)

#define HWTS_LONGEST_PERIOD_US (HWTS_S_US * 86400 * 365 * 100)

/* The value in its range, 0 to most: somebody may have edited the row. */
static inline int64_t hwts_within(int64_t value, int64_t most)
{
	return HWTS_MAX(HWTS_MIN(value, most), 0);
}

/* A public call: hwts_enter clears the thread's text, hwts_leave restores errno. */
struct hwts_call {
	int before; /* errno before the call */
};

struct hwts_call hwts_enter(void);
int hwts_leave(struct hwts_call call, int rc);

#define HWTS_FAILURE_MAX 512 /* bytes of a text, with its end */
/* Sets the thread's text and returns rc. */
__attribute__((format(printf, 2, 3))) int hwts_fail(int rc, const char *format, ...);
int hwts_fail_errno(int rc, const char *doing); /* the text is what errno value rc means */
const char *hwts_fail_text(void);
const char *hwts_error_text(int rc, char *text, size_t size); /* what errno value rc means; returns text */

/*
 * Reads a structure that the caller passes, and that begins with its size, into *is.  Fields beyond the end of an older
 * structure are 0.  EINVAL: it is shorter than the oldest, which has `least` bytes.  ENOTSUP: a field of a newer
 * structure, which this version does not know, is not 0.
 */
int hwts_given(const char *name, const void *given, size_t least, void *is, size_t known);

/*
 * Memory
 */

void *hwts_alloc(size_t size); /* zeroed; without memory NULL, and the thread's text is set */
char *hwts_copy(const char *text);
/* Makes room for count items in the array to which *array points.  False: no memory. */
bool hwts_grow(void *array, size_t *room, size_t count, size_t item);

/*
 * Clocks.  Every clock is read through these functions, so that a test can set it.
 */

int64_t hwts_boot_ns(void); /* CLOCK_BOOTTIME: goes on while the machine sleeps, so leases are measured on it */
bool hwts_boot_id(char *id, size_t size); /* of this boot; false: /proc cannot be read */
int64_t hwts_wall_us(void);               /* microseconds since 1970: the clock of a SQLite database */
void hwts_sleep_ns(int64_t ns);
void hwts_cond_init(pthread_cond_t *cond); /* timed waits of this condition are on CLOCK_MONOTONIC */

/*
 * As pthread_create.  The thread blocks signals that are sent to the process: they are for the program's own threads.
 */
int hwts_thread(pthread_t *thread, void *(*run)(void *), void *arg);
void hwts_wait_ns(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns);

/* Rounds a duration up to microseconds. */
static inline int64_t hwts_up_to_us(int64_t ns)
{
	return ns / 1000 + (ns % 1000 > 0);
}

uint64_t hwts_random(void); /* for names, jitter and starting places; not for secrets */
uint64_t hwts_mix(uint64_t value);
uint32_t hwts_hash(const char *bytes, size_t len);  /* FNV-1a */
uint32_t hwts_bucket(const char *name, size_t len); /* the bucket of a group, or of a key without a group */

/* Copies text into a field, cut at a whole character of UTF-8, with a final 0. */
void hwts_cut(char *field, size_t size, const char *text, size_t len);
#define HWTS_DIGITS 20 /* of the longest number, with its sign */
/* Returns the end; with snprintf a timeout's life takes an eighth longer. */
char *hwts_put_digits(char *to, int64_t number);

/* Integers in network order. */
static inline void hwts_put_bytes(char *to, uint64_t value, unsigned len)
{
	for (unsigned i = 0; i < len; i++)
		to[i] = (char)(value >> 8 * (len - 1 - i));
}

static inline uint64_t hwts_get_bytes(const void *from, unsigned len)
{
	const unsigned char *bytes = from;
	uint64_t value = 0;

	for (unsigned i = 0; i < len; i++)
		value = value << 8 | bytes[i];
	return value;
}

bool hwts_is_utf8(const char *text, size_t len);
bool hwts_to_ascii(char *text); /* replaces characters other than ASCII by "?"; false: there were none */

#ifdef HWT_TEST
#include <stdatomic.h>
extern _Atomic int64_t hwts_test_wall_us;                /* added to the wall clock */
extern _Atomic int64_t hwts_test_boot_ns;                /* added to CLOCK_BOOTTIME */
extern _Atomic bool hwts_test_deaf;                      /* news is lost on the way */
extern _Atomic bool hwts_test_hides_proc;                /* /proc cannot be read */
extern _Atomic int64_t hwts_test_look_took;              /* added to how long a look took, in ns */
extern _Atomic bool hwts_test_loses_wakes;               /* no thread of a store is woken except by a renewal */
extern _Atomic bool hwts_test_loses_rows;                /* rows that should enter the window are lost on the way */
extern _Atomic bool hwts_test_keeps_begun;               /* begun rows are never given back as stale */
extern _Atomic bool hwts_test_loses_timers;              /* a timer of the window fires, and nothing happens */
extern _Atomic unsigned hwts_test_window;                /* not 0: the most entries of a kind */
extern _Atomic unsigned hwts_test_rescued;               /* rows that were found by the safety net alone */
extern _Atomic(void (*)(const char *)) hwts_test_at;     /* set by a test: called at each HWTS_POINT */
extern _Atomic(const char *) hwts_test_error_text;       /* the text of each errno value, in another language */
extern _Atomic(bool (*)(void)) hwts_test_refuses_memory; /* asked before each allocation */
#define HWTS_POINT(name)                                                                                               \
	do {                                                                                                           \
		void (*at_)(const char *) = atomic_load_explicit(&hwts_test_at, memory_order_acquire);                 \
		if (at_)                                                                                               \
			at_(name);                                                                                     \
	} while (0)
#define HWTS_TEST(flag) atomic_load_explicit(&hwts_test_##flag, memory_order_acquire) /* set by a test */
/* Relaxed: a counter. */
#define HWTS_COUNT_RESCUE() atomic_fetch_add_explicit(&hwts_test_rescued, 1, memory_order_relaxed)
#else
#define HWTS_POINT(name) ((void)0)
#define HWTS_TEST(flag) false
#define HWTS_COUNT_RESCUE() ((void)0)
#endif

#endif
