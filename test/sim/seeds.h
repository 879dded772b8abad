/* SPDX-License-Identifier: BSD-2-Clause */
/* Seeds that once failed: the scenario, the seed, and what was wrong; main.c. */
{ "loop", 537, "a ring was noted only when it was over: the loop missed an edge" },
{ "any", 814, "a cancel came in the middle of a move: the library crashed" },
