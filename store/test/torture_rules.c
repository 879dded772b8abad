/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of groups in the torture.  Each actor sets the same limits before it puts any timeout, so they hold from the
 * first start on.  The conductor pauses and resumes a group or a kind: the conductor is never killed.
 */
#include "torture.h"

static const hwt_store_limits limits[] = {
	{ .size = sizeof(hwt_store_limits), .running = 1 },
	{ .size = sizeof(hwt_store_limits), .running = 2 },
	{ .size = sizeof(hwt_store_limits), .running = 3, .start_every_ns = HWT_MS(100), .burst = 3 },
};

/* Two in three timeouts have no group: NULL. */
const char *torture_draw_group(uint64_t *random, char group[8])
{
	unsigned number = (unsigned)draw(random, TORTURE_GROUPS + TORTURE_STORMY / 2);

	if (number < TORTURE_GROUPS)
		(void)snprintf(group, 8, "g%u", number);
	else
		(void)snprintf(group, 8, "s%u", (unsigned)draw(random, TORTURE_STORMY));
	return draw(random, 3) == 0 ? group : NULL;
}

/* False: try again. */
bool torture_limits(hwt_store *store, int log)
{
	bool good = true;

	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]) && good; i++) {
			char group[8];
			int rc;

			(void)snprintf(group, sizeof(group), "g%u", i);
			history(log, "limit? %u %s %u %" PRId64 " %u", kind, group, limits[i].running,
				limits[i].start_every_ns / 1000, limits[i].burst);
			rc = hwt_store_limit(store, kind_names[kind], group, &limits[i]);
			history(log, "limit %u %s %d", kind, group, rc);
			good = rc == 0;
		}
	return good;
}

hwt_store *torture_store(const struct torture *torture)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	hwt_store *store = NULL;

	config.schema = SCHEMA;
	config.warn = NULL;
	return hwt_store_open(&store, torture->real_url, &config, NULL, 0) == 0 ? store : NULL;
}

/* Returns the result of the call. */
static int set_pause(struct torture *torture, hwt_store *store, bool paused)
{
	const char *kind = kind_names[torture->paused_kind], *call = paused ? "halt" : "resume";
	const char *group = torture->paused[0] == '-' ? NULL : torture->paused;
	int rc;

	history(torture->log, "%s? %u %s", call, torture->paused_kind, torture->paused);
	rc = paused ? hwt_store_pause(store, kind, group) : hwt_store_resume(store, kind, group);
	history(torture->log, "%s %u %s %d", call, torture->paused_kind, torture->paused, rc);
	return rc;
}

void torture_pause(struct torture *torture)
{
	hwt_store *store = torture->resume_us == 0 ? torture_store(torture) : NULL;

	if (store == NULL)
		return;
	torture->paused_kind = (unsigned)draw(&torture->random, 3);
	(void)snprintf(torture->paused, sizeof(torture->paused), "g%u",
		       (unsigned)draw(&torture->random, TORTURE_GROUPS));
	if (draw(&torture->random, 4) == 0)
		(void)snprintf(torture->paused, sizeof(torture->paused), "-");
	(void)set_pause(torture, store, true); /* if the answer is lost the group may be paused */
	torture->resume_us = true_us() + (int64_t)draw(&torture->random, 6000000);
	(void)hwt_store_close(store);
}

/* Tries until the answer is known. */
void torture_resume(struct torture *torture)
{
	hwt_store *store = torture_store(torture);

	if (store == NULL)
		return;
	if (set_pause(torture, store, false) == 0)
		torture->resume_us = 0;
	(void)hwt_store_close(store);
}
