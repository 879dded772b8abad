/* SPDX-License-Identifier: BSD-2-Clause */
/* The configurations in which the oracle runs programs. */
#ifndef HWT_ORACLE_TABLE_H
#define HWT_ORACLE_TABLE_H

#include "unit.h"

/* X(name in lower case): one step of a program. */
#define OPERATIONS(X)                                                                                                  \
	X(new)         /* schedule one */                                                                              \
	X(burst)       /* schedule many */                                                                             \
	X(cancel)      /* fresh, stale and ended ones */                                                               \
	X(cull)        /* cancel every k-th, or all but every k-th */                                                  \
	X(pass)        /* once more at the same time */                                                                \
	X(linger)      /* time goes on, less than a tick; no pass */                                                   \
	X(ticks)       /* some ticks, and a pass */                                                                    \
	X(due)         /* to the next tick at which anything is due, or just before */                                 \
	X(rounds)      /* whole rounds of the wheel, give or take a tick */                                            \
	X(jump)        /* far ahead */                                                                                 \
	X(back)        /* the clock goes back a little */                                                              \
	X(memory)      /* becomes scarce, or is back */                                                                \
	X(look)        /* asks what is known of one */                                                                 \
	X(stop_midway) /* one of the next tasks stops the timer */

enum operation {
#define X(name) OP_##name,
	OPERATIONS(X)
#undef X
	    OPERATION_COUNT
};

struct oracle_row {
	const char *name;
	int64_t tick_ns;
	uint32_t wheel;
	int64_t farthest_ns; /* the longest delay, but for some that cannot be reached at all */
	int64_t start_ns;
	int64_t limit; /* max_pending_timeouts */
	uint32_t max_transfers;
	unsigned refuse;                 /* so many of 256 allocations fail while memory is scarce */
	uint32_t lanes;                  /* 1: the calls of the public header; more: on lanes of other threads, too */
	unsigned most;                   /* pending: a bound of the program, not of the timer */
	unsigned deeds;                  /* so many of 256 tasks do something */
	unsigned steps;                  /* of one program */
	unsigned check_every;            /* hwt_check after so many steps */
	uint8_t weight[OPERATION_COUNT]; /* their sum is 256 at the most: one byte chooses */
};

/* clang-format off */
/*                  new burst cancel cull pass linger ticks due rounds jump back memory look stop_midway */
#define USUAL       { 100,  0,    60,   0,   6,   20,    40,  12,   4,    2,  1,    0,    8,    1 }
#define STILL       { 120,  0,    60,   0,   6,   20,    30,   8,   2,    0,  1,    0,    6,    1 }
#define LEAPS       {  90,  0,    40,   0,   4,   10,    20,  30,  20,   20,  0,    0,    8,    1 }
#define CROWD       {  60, 12,    60,  10,   6,   20,    40,  20,   4,    1,  1,    0,    8,    1 }
#define RUSH        {  60, 14,   40,  20,   6,   20,    34,  12,   4,    1,  1,   30,    8,    1 }
#define SCARCE      {  90,  2,    60,   2,   6,   20,    34,  12,   4,    2,  1,   12,    8,    1 }

#define MS HWT_MS(1)
#define SEC HWT_S(1)
#define POWER(bits) (INT64_C(1) << (bits))
#define HOUR HWT_S(3600)
#define DAY HWT_S(86400)
#define BEGIN HWT_S(1000)
#define NEAR_END (INT64_MAX - HWT_S(2000))
#define VERY_END (INT64_MAX - 9000)
#define MILLION (1u << 20)
#define LOTS 100000

/* The columns are the members of struct oracle_row. */
#define ORACLE_TABLE(X) \
	X(wheel_of_1     ,       MS,       1,   60 * MS,    BEGIN,   0, LOTS,   0, 1,   60,  40,  400,    1,  USUAL) \
	X(wheel_of_2     ,       MS,       2,   60 * MS,    BEGIN,   0, LOTS,   0, 1,   60,  40,  400,    1,  USUAL) \
	X(wheel_of_8     ,       MS,       8,  300 * MS,    BEGIN,   0, LOTS,   0, 1,   80,  80,  400,    1,  USUAL) \
	X(wheel_of_64    ,  1234567,      64,  10 * SEC,        7,   0, LOTS,   0, 1,   80,  80,  400,    1,  USUAL) \
	X(defaults       , 100 * MS,     512,       DAY,    BEGIN,   0, LOTS,   0, 1,   80,  40,  800,    2,  USUAL) \
	X(busy_tasks     ,       MS,      16,   50 * MS,    BEGIN,   0, LOTS,   0, 1,   60, 220,  400,    1,  USUAL) \
	X(limit_of_9     ,       MS,      16,   60 * MS,    BEGIN,   9, LOTS,   0, 1,   60, 120,  400,    1,  STILL) \
	X(one_transfer   ,       MS,       8,   60 * MS,    BEGIN,   0,    1,   0, 1,   60,  40,  400,    1,  USUAL) \
	X(few_transfers  ,       MS,      32,       SEC,    BEGIN,   0,    7,   0, 1,   90,  60,  400,    1,  STILL) \
	X(far_wheel_of_1 ,        1,       1, POWER(62),        2,   0, LOTS,   0, 1,   40,  20,  400,    1,  LEAPS) \
	X(far_wheel_of_32,        1,      32, POWER(62),        2,   0, LOTS,   0, 1,   60,  20,  400,    1,  LEAPS) \
	X(far_scarce     ,        1,      16, POWER(50),        2,   0, LOTS, 200, 1,  300,  20,  600,    2, SCARCE) \
	X(end_of_time    ,       MS,      64,      HOUR, NEAR_END,   0, LOTS,   0, 1,   60,  40,  400,    1,  USUAL) \
	X(last_nanosecond,        1,       8,      5000, VERY_END,   0, LOTS,   0, 1,   60,  40,  400,    1,  USUAL) \
	X(scarce_memory  ,       MS,    1024,   4 * SEC,    BEGIN,   0, LOTS, 128, 1,  300,  60, 1000,    8, SCARCE) \
	X(no_memory      ,       MS,     256,       SEC,    BEGIN, 200, LOTS, 255, 1,  300,  60,  600,    4, SCARCE) \
	X(crowd          ,       MS,      16,  100 * MS,    BEGIN,   0, LOTS,   0, 1, 4000,  10, 1500,   20,  CROWD) \
	X(crowd_of_rounds,       MS,       2,       SEC,    BEGIN,   0,  100,   0, 1, 4000,  10, 1500,   20,  CROWD) \
	X(scarce_crowd   ,       MS,      64,  100 * MS,    BEGIN,   0, LOTS, 255, 1, 2500,  10,  200,    5,   RUSH) \
	X(three_lanes    ,       MS,      32,       SEC,    BEGIN,   0, LOTS,   0, 3,  400,  60, 1000,    4,  USUAL) \
	X(scarce_lanes   ,       MS,      32,       SEC,    BEGIN, 300, LOTS,  99, 5,  400,  60, 1000,    4, SCARCE) \
	X(million_buckets,       MS, MILLION, POWER(55),    BEGIN,   0, LOTS,   0, 1,  600,  20, 6000, 3000,  USUAL)
/* clang-format on */

static const struct oracle_row oracle_table[] = {
#define X(name, ...) { #name, __VA_ARGS__ },
	ORACLE_TABLE(X)
#undef X
};

enum oracle_row_number {
#define X(name, ...) ROW_##name,
	ORACLE_TABLE(X)
#undef X
	    ORACLE_ROWS
};

#endif
