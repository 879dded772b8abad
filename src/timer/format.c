/* SPDX-License-Identifier: BSD-2-Clause */
/* The time left to a deadline: as a number, and in words for logs. */
#include "timer/timer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#ifdef HWT_DEBUG
#include <stdlib.h>

/* A debug build (make DEBUG=1) keeps destroyed timers and their records. */
void hwt_debug_timer(const hwt_timer *timer, const char *call)
{
	if (timer == NULL || !timer->is_destroyed)
		return;
	(void)fprintf(stderr, "hwt: %s: the timer %p \"%s\" has been destroyed\n", call, (const void *)timer,
		      timer->thread_name);
	abort();
}

void hwt_debug_handle(hwt_timeout timeout, const char *call)
{
	const hwt_timer *timer = timeout.entry != NULL ? lanes_of(timeout.entry)->timer : NULL;

	if (timer == NULL || !timer->is_destroyed)
		return;
	(void)fprintf(stderr, "hwt: %s: the timer %p \"%s\" of the handle %p:%" PRIu64 " has been destroyed\n", call,
		      (const void *)timer, timer->thread_name, timeout.entry, timeout.generation);
	abort();
}
#endif

static const char *const words[] = {
	[HWT_NONE] = "none",       [HWT_PENDING] = "pending",     [HWT_RUNNING] = "running",
	[HWT_EXPIRED] = "expired", [HWT_CANCELLED] = "cancelled", [HWT_RETIRED] = "retired",
};

#define LEFT_LENGTH 48

int hwt_timeout_left(hwt_timeout timeout, int64_t *left_ns)
{
	struct hwt_record *record = timeout.entry;
	int64_t deadline_ns;
	hwt_state state;

	CHECK_HANDLE(timeout);
	if (left_ns == NULL)
		return EINVAL;
	/* A periodic timeout may begin to run while it is read, and be pending again afterwards. */
	do {
		state = hwt_timeout_state(timeout);
		if (state != HWT_PENDING)
			return state == HWT_RUNNING ? EBUSY : ENOENT;
	} while (!record_read_deadline(record, timeout.generation, &deadline_ns));
	if (deadline_ns != INT64_MAX)
		deadline_ns = subtract_saturating(deadline_ns, hwt_timer_now(hwt_timeout_timer(timeout)));
	*left_ns = deadline_ns;
	return 0;
}

/* Writes ", 1.204 s left", or nothing if the timeout is not pending any more.  It does not wait for a mover. */
static void say_left(hwt_timeout timeout, char *left)
{
	struct hwt_record *record = timeout.entry;
	int64_t deadline_ns, left_ms;

	left[0] = '\0';
	if (!record_read_deadline(record, timeout.generation, &deadline_ns))
		return;
	if (deadline_ns == INT64_MAX) {
		(void)snprintf(left, LEFT_LENGTH, ", never due");
		return;
	}
	left_ms = subtract_saturating(deadline_ns, hwt_timer_now(hwt_timeout_timer(timeout))) / 1000000;
	if (left_ms >= 0)
		(void)snprintf(left, LEFT_LENGTH, ", %" PRId64 ".%03d s left", left_ms / 1000, (int)(left_ms % 1000));
	else
		(void)snprintf(left, LEFT_LENGTH, ", due since %" PRId64 ".%03d s", -(left_ms / 1000),
			       (int)-(left_ms % 1000));
}

int hwt_timeout_format(hwt_timeout timeout, char *buf, size_t len)
{
	char left[LEFT_LENGTH] = "";
	int before = errno, length;
	hwt_state state;

	CHECK_HANDLE(timeout);
	state = hwt_timeout_state(timeout);
	if (state == HWT_NONE) {
		length = snprintf(buf, len, "hwt timeout none");
	} else {
		if (state == HWT_PENDING)
			say_left(timeout, left);
		length = snprintf(buf, len, "hwt timeout 0x%" PRIxPTR ":%" PRIu64 " %s%s", (uintptr_t)timeout.entry,
				  timeout.generation, words[state], left);
	}
	errno = before;
	return length;
}
