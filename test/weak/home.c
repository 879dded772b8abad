/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records come back to a lane: the worker splices a chain of two, an executor's thread pushes one, and a producer takes
 * what there is.  Each comes back once, and complete.
 */
#include "weak.h"

#include "lane/pool.h"

static hwt_returned returned;
static struct hwt_record records[3];
static int taken;

static void *splice(void *unused)
{
	struct hwt_chain chain = { .first = NULL };

	chain_append(&chain, &records[0]);
	chain_append(&chain, &records[1]);
	returned_splice(&returned, &chain);
	return unused;
}

static void *push(void *unused)
{
	returned_push(&returned, &records[2]);
	return unused;
}

static void *take(void *unused)
{
	for (struct hwt_record *record = returned_take_all(&returned); record != NULL; record = record->free_next) {
		taken++;
		record->free_ahead = NULL;
	}
	return unused;
}

int main(void)
{
	pthread_t worker, executor, producer;

	worker = weak_start(splice);
	executor = weak_start(push);
	producer = weak_start(take);
	pthread_join(worker, NULL);
	pthread_join(executor, NULL);
	pthread_join(producer, NULL);
	take(NULL);
	assert(taken == 3);
	return 0;
}
