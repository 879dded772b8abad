/* SPDX-License-Identifier: BSD-2-Clause */
/* The configurations in which the oracle runs programs. */
#ifndef HWT_ORACLE_TABLE_H
#define HWT_ORACLE_TABLE_H

#include "unit.h"

/* X(name in lower case): one step of a program. */
#define OPERATIONS(X)                                                                                                  \
	X(new)         /* schedule a timeout */                                                                        \
	X(burst)       /* schedule many timeouts */                                                                    \
	X(cancel)      /* cancel a timeout that is fresh, stale or ended */                                            \
	X(cull)        /* cancel every k-th, or all but every k-th */                                                  \
	X(pass)        /* a pass at the same time */                                                                   \
	X(linger)      /* less than a tick goes by; no pass */                                                         \
	X(ticks)       /* some ticks, and a pass */                                                                    \
	X(due)         /* to the next tick with a due timeout, or just before */                                       \
	X(rounds)      /* whole rounds of the wheel, give or take a tick */                                            \
	X(jump)        /* the clock jumps far ahead */                                                                 \
	X(back)        /* the clock goes back a little */                                                              \
	X(memory)      /* memory is scarce, or is back */                                                              \
	X(look)        /* ask for the state of a timeout */                                                            \
	X(stop_midway) /* one of the next tasks stops the timer */                                                     \
	X(move)        /* move a timeout that is fresh, stale or ended */                                              \
	X(moves)       /* move every k-th */                                                                           \
	X(again)       /* some of the next tasks run again */                                                          \
	X(periodic)    /* schedule a periodic timeout */                                                               \
	X(release)     /* schedule a timeout with a finaliser, and perhaps with a period */

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
	int64_t farthest_ns; /* the longest delay, but for some that never come */
	int64_t start_ns;
	int64_t limit; /* max_pending_timeouts */
	uint32_t max_transfers;
	unsigned refuse;                 /* of 256 allocations this many fail while memory is scarce */
	uint32_t lanes;                  /* 1: only calls of the public header; more: lanes of other threads, too */
	unsigned most;                   /* the most pending timeouts: a bound of the program, not of the timer */
	unsigned deeds;                  /* of 256 tasks this many make calls */
	unsigned steps;                  /* steps of a program */
	unsigned check_every;            /* steps between two calls of hwt_check */
	uint8_t weight[OPERATION_COUNT]; /* their sum is at most 256, as one byte chooses the operation */
};

/* clang-format off */
/*                  new burst cancel cull pass linger ticks due rounds jump back memory look stop_midway
                                                                      move moves again periodic release */
#define USUAL       {  70,  0,    36,   0,   6,   16,    36,  12,   4,    2,  1,    0,    8,    1, \
			                                                36,    1,    8,       6,     10 }
#define STILL       {  84,  0,    36,   0,   6,   16,    28,   8,   2,    0,  1,    0,    6,    1, \
			                                                36,    1,    8,       6,     10 }
#define LEAPS       {  64,  0,    28,   0,   4,    8,    18,  28,  18,   18,  0,    0,    8,    1, \
			                                                34,    1,    6,       6,      8 }
#define CROWD       {  44, 12,    40,  10,   6,   16,    36,  18,   4,    1,  1,    0,    8,    1, \
			                                                24,    6,    8,       4,     10 }
#define RUSH        {  44, 14,    30,  18,   6,   14,    32,  12,   4,    1,  1,   28,    6,    1, \
			                                                20,    8,    6,       3,      8 }
#define SCARCE      {  70,  2,    40,   2,   6,   14,    32,  12,   4,    2,  1,   12,    6,    1, \
			                                                28,    3,    6,       4,      8 }
#define PUT_OFF     {  36,  3,    14,   0,   4,   16,    40,  10,   4,    1,  1,    7,    4,    1, \
			                                                82,   10,   10,       4,      8 }
#define BEATS       {  20,  0,    20,   0,   6,   20,    50,  20,  14,    4,  2,    2,   10,    1, \
			                                                24,    1,   14,      34,     12 }
#define OWNED       {  20,  0,    60,   2,   6,   16,    30,  10,   4,    1,  1,    6,    8,    3, \
			                                                24,    1,   12,       6,     44 }

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
	X(put_off        ,       MS,      16,  100 * MS,    BEGIN,   0, LOTS, 240, 1,  900,  60,  600,    2,PUT_OFF) \
	X(put_off_slowly ,       MS,       8,  200 * MS,    BEGIN,   0,    5,   0, 1,   60,  60,  400,    1,PUT_OFF) \
	X(beats          ,     1000,      16,   500000L,    BEGIN,  40, LOTS,  60, 1,   80,  60,  400,    1,  BEATS) \
	X(owned          ,       MS,      16,  300 * MS,    BEGIN,   0, LOTS, 120, 3,  100,  90,  400,    1,  OWNED) \
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
