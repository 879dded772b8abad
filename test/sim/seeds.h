/* SPDX-License-Identifier: BSD-2-Clause */
/* Seeds that once failed: the scenario, the seed, and what was wrong; main.c. */
{ "loop", 5936, "a ring was noted only when it was over: the loop missed an edge" },
