/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * S8 growth: other scenarios with n from 10^4 to 10^7, or with 1 to 32 producers: the cost of an operation must not
 * grow.
 */
#include "load.h"

#define DECADES .sizes = { 10000, 100000, 1000000, 10000000, SIZE_END }

const struct scenario scenarios_growth[] = {
	{ .name = "S8.P",
	  .title = "S1 with a million and more and more producers",
	  .figures = S1_FIGURES,
	  .run = s1_run,
	  .tick_ns = NS_PER_MS,
	  .sizes = { 1000000, SIZE_END },
	  .producers = { 1, 2, 4, 8, 16, 32 },
	  .rank = RANK_MAIN },
	{ .name = "S8.S1",
	  .title = "S1 with more and more timeouts",
	  .figures = S1_FIGURES,
	  .run = s1_run,
	  .tick_ns = NS_PER_MS,
	  DECADES,
	  .rank = RANK_MAIN },
	{ .name = "S8.S2",
	  .title = "S2 with more and more pairs",
	  .figures = S2_FIGURES,
	  .run = s2_run,
	  .tick_ns = NS_PER_MS,
	  .constant_ns = 30 * NS_PER_S,
	  DECADES,
	  .rank = RANK_MAIN,
	  .churn = true },
	{ .name = "S8.S3",
	  .title = "S3 (one instant) with more and more timeouts",
	  .figures = S3_FIGURES,
	  .run = s3_run,
	  .tick_ns = NS_PER_MS,
	  DECADES,
	  .slow = true },
	{ .name = "S8.S6",
	  .title = "S6 with more and more timeouts",
	  .figures = S6_FIGURES,
	  .run = s6_run,
	  .tick_ns = NS_PER_MS,
	  DECADES,
	  .slow = true },
	{ .name = NULL },
};
