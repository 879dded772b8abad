/* SPDX-License-Identifier: BSD-2-Clause */
/* serve, of a build without libmicrohttpd. */
#include "jobs.h"

int serve(struct jobs *jobs)
{
	return complain(jobs, "built without libmicrohttpd");
}
