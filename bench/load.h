/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the scenarios in which producers work as fast as they can. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "run.h"
#include "measure.h"

struct load {
	const struct run *run;
	void *timer;
	struct handle *handles;
	int64_t base_ns; /* read before the phase, so base + delay is not later than the deadline */
};

static inline double per(int64_t ns, size_t n)
{
	return (double)ns / (double)n;
}

static inline double millions_per_s(size_t n, int64_t ns)
{
	return (double)n * 1e3 / (double)ns;
}

/* Schedules a member's share of the handles, with delays of 60 to 120 s. */
void fill_by_delay(struct member *me);

/* For the growth scenarios, which run these with other sizes. */
void s1_run(const struct run *run, struct outcome *outcome);
void s2_run(const struct run *run, struct outcome *outcome);
void s3_run(const struct run *run, struct outcome *outcome);
void s6_run(const struct run *run, struct outcome *outcome);

#define S1_FIGURES                                                                                                     \
	{                                                                                                              \
		"Mop/s", "producer ns/op", "process ns/op", "RSS B/pending", "stop ns/op"                              \
	}
#define S2_FIGURES                                                                                                     \
	{                                                                                                              \
		"Mpairs/s", "producer ns", "process ns", "peak RSS MB"                                                 \
	}
#define S3_FIGURES                                                                                                     \
	{                                                                                                              \
		"Mtasks/s", "first late ms", "last late ms", "worker ns/task"                                          \
	}
#define S6_FIGURES                                                                                                     \
	{                                                                                                              \
		"idle CPU ms/s", "idle switches/s", "ticking CPU ms/s", "RSS B/pending"                                \
	}

#endif
