/* SPDX-License-Identifier: BSD-2-Clause */
/* pause, resume, limit: of a kind, or of a group of it. */
#include "jobs.h"

#include <stdio.h>

/* One kind, which is there. */
static int check(struct jobs *jobs)
{
	if (jobs->n != 1)
		return complain(jobs, "of which kind: one word; --group GROUP is one of its groups");
	return find_kind(jobs, jobs->words[0]);
}

static int end(struct jobs *jobs, int rc, const char *command, const char *done)
{
	if (rc != 0)
		return report(jobs, rc, command);
	fprintf(jobs->out, jobs->json ? "{\"%s\": 1}\n" : "%s\n", done);
	return DONE;
}

int pause_it(struct jobs *jobs)
{
	int rc = check(jobs);

	return rc == DONE ? end(jobs, hwt_store_pause(jobs->store, jobs->words[0], jobs->group), "pause", "paused")
			  : rc;
}

int resume(struct jobs *jobs)
{
	int rc = check(jobs);

	return rc == DONE ? end(jobs, hwt_store_resume(jobs->store, jobs->words[0], jobs->group), "resume", "resumed")
			  : rc;
}

int limit(struct jobs *jobs)
{
	hwt_store_limits limits = HWT_STORE_LIMITS_INIT;
	bool given = jobs->running >= 0 || jobs->every || jobs->burst >= 0;
	int rc = check(jobs);

	if (rc != DONE)
		return rc;
	if (given == jobs->unset)
		return complain(jobs, "--running N, --every DURATION with --burst N, or --unset");
	if (jobs->burst >= 0 && !jobs->every)
		return complain(jobs, "--burst needs --every");
	if (jobs->every && !read_duration(jobs->every, &limits.start_every_ns))
		return complain(jobs, "\"%s\" is no duration: 200ms, 90s, 2h30m", jobs->every);
	limits.running = jobs->running > 0 ? (uint32_t)jobs->running : 0;
	limits.burst = jobs->burst > 0 ? (uint32_t)jobs->burst : 0;
	rc = hwt_store_limit(jobs->store, jobs->words[0], jobs->group, jobs->unset ? NULL : &limits);
	return end(jobs, rc, "limit", jobs->unset ? "unset" : "limited");
}
