/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the processes of demo_store.c share: a board in memory, on which the producer writes what it was promised and
 * each worker writes what it runs.  It survives the death of any of them, and it knows nothing of the store: it is the
 * evidence against which the store is judged.
 *
 * Threads  An item belongs to the thread of the producer that put it, which writes its fate when the call has returned.
 *          A start belongs to the task that drew its number; begun is written last, and done when the task returns.
 *          Main reads all of it, for the progress at any time and for the verdict when the others have ended.
 */
#ifndef DEMO_STORE_BOARD_H
#define DEMO_STORE_BOARD_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <hwt_store.h>

#define WORKERS 3
#define ITEMS_MAX 100000
#define WRONGS_KEPT 8

enum fate { NOT_PUT, ACCEPTED, CANCELLED }; /* as the producer was told */

struct item {
	_Atomic int64_t id;
	atomic_int fate;
	int64_t cancelled_us; /* when that had returned, on the database's clock; written before the fate */
	unsigned mode;        /* HWT_STORE_..., which is also the number of its kind */
};

/* A call of a task. */
struct start {
	unsigned item, worker, attempt;
	int64_t due_us, begun_us;
	atomic_bool begun, done; /* done: the task has returned 0 */
};

struct worker {
	atomic_bool ended_well;
	atomic_uint shards; /* that it holds, as it said last */
	atomic_uint runs;
	_Atomic uint64_t lost_leases;
};

struct board {
	unsigned items;       /* that the producer is to put */
	int64_t start_us;     /* of the ten seconds */
	int64_t offset_us;    /* the database's clock minus ours; 0 on one machine */
	int64_t tolerance_us; /* how well that is known; 0 on one machine */
	atomic_uint accepted, cancelled, too_late, moved, refused;
	struct worker worker[WORKERS];
	atomic_uint wrongs;
	char wrong[WRONGS_KEPT][200];
	struct item item[ITEMS_MAX];
	atomic_uint starts;
	struct start start[3 * ITEMS_MAX];
};

static const char *const kind_names[] = { "remind", "ring", "charge" };
static const char *const mode_names[] = { "at least once", "at most once", "transaction" };

/* Pages that nobody touches cost nothing. */
static struct board *board_make(void)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return board != MAP_FAILED ? board : NULL;
}

static int64_t wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_us(int64_t us)
{
	if (us > 0)
		nanosleep(&(struct timespec){ (time_t)(us / 1000000), (long)(us % 1000000) * 1000 }, NULL);
}

static uint64_t draw(uint64_t *random, uint64_t below)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random % below;
}

/* Keeps what went wrong for the verdict. */
__attribute__((format(printf, 2, 3))) static void wrong(struct board *board, const char *format, ...)
{
	unsigned number = atomic_fetch_add(&board->wrongs, 1);
	va_list values;

	if (number >= WRONGS_KEPT)
		return;
	va_start(values, format);
	vsnprintf(board->wrong[number], sizeof(board->wrong[number]), format, values);
	va_end(values);
}

#endif /* DEMO_STORE_BOARD_H */
