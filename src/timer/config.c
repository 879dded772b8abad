/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings: what was asked for, checked, completed and rounded.
 *
 * The struct grows at its end from version to version.  `size` says how much of it the caller knows; what lies behind
 * has its default.
 */
#include "timer/config.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MIN_TICK_NS HWT_MS(1)
#define MIN_FINE_TICK_NS HWT_US(10)
#define MAX_TICKS_PER_WHEEL (UINT32_C(1) << 30)

#define KNOWN_FLAGS (HWT_FINE_TICKS | HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK)

#define FIELD_END(field) (offsetof(hwt_config, field) + sizeof(((hwt_config *)0)->field))

/* Where fields end: a caller's size counts as far as whole fields go. */
static const size_t field_ends[] = {
	FIELD_END(tick_duration_ns),
	FIELD_END(ticks_per_wheel),
	FIELD_END(max_transfers_per_tick),
	FIELD_END(max_pending_timeouts),
	FIELD_END(flags),
	FIELD_END(wheel),
	FIELD_END(thread_attr),
	FIELD_END(thread_name),
	FIELD_END(warn),
	FIELD_END(warn_ctx),
	FIELD_END(executor),
	FIELD_END(reserved),
};

static_assert(FIELD_END(reserved) == sizeof(hwt_config), "field_ends is complete");

void hwt_warn_stderr(void *ctx, const char *message)
{
	int before = errno, cancel_before = thread_no_cancel();

	(void)ctx;
	(void)fprintf(stderr, "hwt: %s\n", message);
	thread_restore_cancel(cancel_before);
	errno = before;
}

/* How many bytes of a struct of `size` bytes are whole fields that we know.  0: not even the first, or no such size. */
static size_t whole_fields(size_t size)
{
	size_t known = 0;

	if (size > HWT_STRUCT_MAX)
		return 0;
	for (size_t i = 0; i < sizeof(field_ends) / sizeof(field_ends[0]); i++)
		if (field_ends[i] <= size)
			known = field_ends[i];
	return known;
}

/* What a newer header put behind the fields we know must be unset: settings are never ignored. */
static bool tail_is_zero(const hwt_config *in)
{
	const unsigned char *bytes = (const unsigned char *)in;

	for (size_t i = sizeof(*in); i < in->size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static bool reserved_is_zero(const hwt_config *config)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof(config->reserved) / sizeof(config->reserved[0]); i++)
		bits |= config->reserved[i];
	return bits == 0;
}

static int check(const hwt_config *config)
{
	int detached = PTHREAD_CREATE_JOINABLE;

	if (config->tick_duration_ns <= 0 || config->max_transfers_per_tick == 0)
		return EINVAL;
	if (config->ticks_per_wheel == 0 || config->ticks_per_wheel > MAX_TICKS_PER_WHEEL)
		return EINVAL;
	if ((config->flags & ~KNOWN_FLAGS) != 0 || config->wheel > HWT_WHEEL_HIERARCHICAL || !reserved_is_zero(config))
		return EINVAL;
	if ((config->flags & HWT_VIRTUAL_CLOCK) != 0 && (config->flags & HWT_CALLER_DRIVEN) == 0)
		return EINVAL;
	/* Stop joins the worker.  (On Linux the question itself does not fail.) */
	if (config->thread_attr != NULL &&
	    (pthread_attr_getdetachstate(config->thread_attr, &detached) != 0 || detached != PTHREAD_CREATE_JOINABLE))
		return EINVAL;
	if (config->executor != NULL && config->executor->execute == NULL)
		return EINVAL;
	return 0;
}

static uint32_t round_up_to_power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

/* Short ticks cost processor time for a precision that few need: who wants them says so. */
static bool raise_tick(hwt_config *config, const char **warning)
{
	bool fine = (config->flags & HWT_FINE_TICKS) != 0;
	int64_t floor_ns = fine ? MIN_FINE_TICK_NS : MIN_TICK_NS;

	if (config->tick_duration_ns >= floor_ns)
		return false;
	config->tick_duration_ns = floor_ns;
	*warning = fine ? "tick_duration_ns is below 10 us, 10 us is used"
			: "tick_duration_ns is below 1 ms, 1 ms is used (HWT_FINE_TICKS allows less)";
	return true;
}

int hwt_config_resolve(hwt_config *out, const hwt_config *in)
{
	hwt_config config = HWT_CONFIG_INIT;
	const char *warning;
	bool raised;
	int rc;

	if (in != NULL) {
		size_t known = whole_fields(in->size);

		if (known == 0)
			return EINVAL;
		if (in->size > sizeof(config) && !tail_is_zero(in))
			return ENOTSUP;
		memcpy(&config, in, known);
		config.size = sizeof(config);
	}
	rc = check(&config);
	if (rc != 0)
		return rc;
	config.ticks_per_wheel = round_up_to_power_of_two(config.ticks_per_wheel);
	/* Levels of one bucket would reach no further than one of them. */
	if (config.wheel == HWT_WHEEL_HIERARCHICAL && config.ticks_per_wheel == 1)
		config.ticks_per_wheel = 2;
	if (config.max_pending_timeouts < 0)
		config.max_pending_timeouts = 0;
	raised = raise_tick(&config, &warning);
	if (config.tick_duration_ns >= INT64_MAX / config.ticks_per_wheel)
		return EINVAL;
	if (raised && config.warn != NULL)
		config.warn(config.warn_ctx, warning);
	*out = config;
	return 0;
}

int hwt_config_copy_out(hwt_config *out, const hwt_config *config)
{
	size_t size = out->size, known = whole_fields(size);

	if (known == 0)
		return EINVAL;
	memcpy(out, config, known);
	/* The library keeps no copy of the attributes, and does not know how long the creator's are valid. */
	if (known > offsetof(hwt_config, thread_attr))
		out->thread_attr = NULL;
	if (size > sizeof(*out)) /* fields of a newer header: none is in force */
		memset((unsigned char *)out + sizeof(*out), 0, size - sizeof(*out));
	out->size = size;
	return 0;
}
