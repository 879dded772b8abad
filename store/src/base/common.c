/* SPDX-License-Identifier: BSD-2-Clause */
/* Failure texts, memory, clocks, numbers and names for every file of the store; common.h. */
#include "base/common.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char failure[HWTS_FAILURE_MAX];

#ifdef HWT_TEST
_Atomic int64_t hwts_test_wall_us, hwts_test_boot_ns, hwts_test_look_took;
_Atomic bool hwts_test_hides_proc, hwts_test_deaf, hwts_test_loses_wakes, hwts_test_loses_rows, hwts_test_loses_timers;
_Atomic bool hwts_test_keeps_begun;
_Atomic unsigned hwts_test_window, hwts_test_rescued;
_Atomic(void (*)(const char *)) hwts_test_at;
_Atomic(const char *) hwts_test_error_text;
_Atomic(bool (*)(void)) hwts_test_refuses_memory;
#endif

struct hwts_call hwts_enter(void)
{
	failure[0] = '\0';
	return (struct hwts_call){ errno };
}

int hwts_leave(struct hwts_call call, int rc)
{
	if (rc == 0)
		failure[0] = '\0'; /* a text of an attempt that was repeated */
	errno = call.before;
	return rc;
}

int hwts_fail(int rc, const char *format, ...)
{
	char text[sizeof(failure)]; /* the arguments may include the old text */
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (size_t i = strlen(text); i > 0 && (text[i - 1] == '\n' || text[i - 1] == ' '); i--)
		text[i - 1] = '\0';
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ' ';
	memcpy(failure, text, sizeof(failure));
	return rc;
}

int hwts_fail_errno(int rc, const char *doing)
{
	char text[128];

	return hwts_fail(rc, "%s: %s", doing, hwts_error_text(rc, text, sizeof(text)));
}

const char *hwts_error_text(int rc, char *text, size_t size)
{
	char known[64];

	if (strerror_r(rc, known, sizeof(known)) != 0)
		(void)snprintf(known, sizeof(known), "error %d", rc);
#ifdef HWT_TEST
	if (HWTS_TEST(error_text))
		(void)snprintf(known, sizeof(known), "%s", HWTS_TEST(error_text));
#endif
	hwts_cut(text, size, known, strlen(known));
	return text;
}

const char *hwts_fail_text(void)
{
	return failure;
}

int hwts_given(const char *name, const void *given, size_t least, void *is, size_t known)
{
	size_t size;

	memcpy(&size, given, sizeof(size));
	if (size < least || (size < known && size % sizeof(size) != 0))
		return hwts_fail(EINVAL, "%s.size must be sizeof(%s)", name, name);
	for (const char *more = (const char *)given + known; more < (const char *)given + size; more++)
		if (*more)
			return hwts_fail(ENOTSUP, "%s has a setting that this version does not know", name);
	memset(is, 0, known);
	memcpy(is, given, HWTS_MIN(size, known));
	return 0;
}

const char *hwt_store_error(void)
{
	return failure;
}

/*
 * Memory
 */

static bool refused(void)
{
#ifdef HWT_TEST
	bool (*ask)(void) = atomic_load_explicit(&hwts_test_refuses_memory, memory_order_acquire); /* set by a test */

	return ask && ask();
#else
	return false;
#endif
}

void *hwts_alloc(size_t size)
{
	void *memory = refused() ? NULL : calloc(1, size ? size : 1);

	if (!memory)
		(void)hwts_fail(ENOMEM, "no memory for %zu bytes", size);
	return memory;
}

char *hwts_copy(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = hwts_alloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

bool hwts_grow(void *array, size_t *room, size_t count, size_t item)
{
	size_t wanted = HWTS_MAX(*room * 2, HWTS_MAX(count, (size_t)16));
	void *grown;

	if (count <= *room)
		return true;
	memcpy(&grown, array, sizeof(grown)); /* a pointer of any type */
	grown = refused() ? NULL : realloc(grown, wanted * item);
	if (!grown) {
		(void)hwts_fail(ENOMEM, "no memory for %zu bytes", wanted * item);
		return false;
	}
	memcpy(array, &grown, sizeof(grown));
	*room = wanted;
	return true;
}

/*
 * Clocks
 */

int64_t hwts_boot_ns(void)
{
	struct timespec now;
	int64_t ns;

#ifdef CLOCK_BOOTTIME
	clock_gettime(CLOCK_BOOTTIME, &now);
#else
	clock_gettime(CLOCK_MONOTONIC, &now);
#endif
	ns = HWT_S(now.tv_sec) + now.tv_nsec;
#ifdef HWT_TEST
	ns += atomic_load_explicit(&hwts_test_boot_ns, memory_order_acquire); /* set by a test */
#endif
	return ns;
}

int64_t hwts_wall_us(void)
{
	struct timespec now;
	int64_t us;

	clock_gettime(CLOCK_REALTIME, &now);
	us = (int64_t)now.tv_sec * HWTS_S_US + now.tv_nsec / 1000;
#ifdef HWT_TEST
	us += atomic_load_explicit(&hwts_test_wall_us, memory_order_acquire); /* set by a test */
#endif
	return us;
}

bool hwts_boot_id(char *id, size_t size)
{
	FILE *file = HWTS_TEST(hides_proc) ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");
	bool read = file && fgets(id, (int)size, file);

	if (file)
		(void)fclose(file);
	if (read)
		id[strcspn(id, "\n")] = '\0';
	return read && id[0] != '\0';
}

void hwts_sleep_ns(int64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / HWT_S(1)), .tv_nsec = (long)(ns % HWT_S(1)) };

	if (ns > 0)
		(void)nanosleep(&left, NULL);
}

void hwts_wait_ns(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns)
{
	int64_t until_ns = hwt_now() + ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / HWT_S(1)), .tv_nsec = (long)(until_ns % HWT_S(1)) };

	(void)pthread_cond_timedwait(cond, lock, &until);
}

void hwts_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/*
 * Signals that an instruction of a task raises stay unblocked: if blocked, they would kill the process without calling
 * its handler.
 */
int hwts_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
	static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF };
	sigset_t mask, before;
	int rc;

	sigfillset(&mask);
	for (size_t i = 0; i < HWTS_COUNT(raised); i++)
		sigdelset(&mask, raised[i]);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/* The finaliser of splitmix64. */
uint64_t hwts_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint32_t hwts_hash(const char *bytes, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)bytes[i]) * 16777619u;
	return h;
}

uint32_t hwts_bucket(const char *name, size_t len)
{
	uint32_t h = hwts_hash(name, len);

	return (h ^ h >> 10 ^ h >> 20) & (HWTS_BUCKETS - 1);
}

uint64_t hwts_random(void)
{
	static _Thread_local uint64_t state;
	static _Thread_local pid_t of; /* a forked child gets a sequence of its own */

	if (state == 0 || of != getpid()) {
		FILE *file = fopen("/dev/urandom", "rbe");

		of = getpid();
		if (!file || fread(&state, sizeof(state), 1, file) != 1)
			state = (uint64_t)hwt_now() ^ (uint64_t)of << 40 ^ (uint64_t)(uintptr_t)&state;
		if (file)
			(void)fclose(file);
	}
	state += UINT64_C(0x9e3779b97f4a7c15);
	return hwts_mix(state);
}

/*
 * Text
 */

/* Returns the length of the character at text; 0: not UTF-8. */
static size_t character(const unsigned char *text, size_t len)
{
	size_t more = text[0] < 0x80 ? 0 : (text[0] & 0xe0) == 0xc0 ? 1 : (text[0] & 0xf0) == 0xe0 ? 2 : 3;

	if (text[0] >= 0x80 && (text[0] < 0xc2 || text[0] > 0xf4))
		return 0;
	if (more >= len)
		return 0;
	for (size_t i = 1; i <= more; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] >= 0x90))
		return 0; /* overlong, a surrogate, or beyond Unicode */
	return more + 1;
}

bool hwts_is_utf8(const char *text, size_t len)
{
	for (size_t at = 0, step; at < len; at += step) {
		step = character((const unsigned char *)text + at, len - at);
		if (step == 0)
			return false;
	}
	return true;
}

void hwts_cut(char *field, size_t size, const char *text, size_t len)
{
	size_t keep = HWTS_MIN(len, size - 1);

	while (keep < len && keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
		keep--;
	if (keep > 0)
		memcpy(field, text, keep);
	memset(field + keep, 0, size - keep);
}

char *hwts_put_digits(char *to, int64_t number)
{
	char digits[HWTS_DIGITS], *at = digits + HWTS_DIGITS;
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

	do
		*--at = (char)('0' + left % 10);
	while ((left /= 10) > 0);
	if (number < 0)
		*to++ = '-';
	memcpy(to, at, (size_t)(digits + HWTS_DIGITS - at));
	return to + (digits + HWTS_DIGITS - at);
}

bool hwts_to_ascii(char *text)
{
	char *to = text;
	bool any = false;

	for (const unsigned char *from = (const unsigned char *)text; *from; from++) {
		any |= *from >= 0x80;
		if ((*from & 0xc0) != 0x80) /* not a continuation byte */
			*to++ = (char)(*from < 0x80 ? *from : '?');
	}
	*to = '\0';
	return any;
}
