/* SPDX-License-Identifier: BSD-2-Clause */
/* Two threads of an executor push records that are to run again, and the worker takes them: each once, and complete. */
#include "weak.h"

#include "lane/stack.h"

static hwt_stack stack;
static struct hwt_record records[2];
static int taken;

static void *push(void *unused)
{
	records[0].place = 1;
	stack_push(&stack, &records[0]);
	return unused;
}

static void *push_too(void *unused)
{
	records[1].place = 1;
	stack_push(&stack, &records[1]);
	return unused;
}

static void *take(void *unused)
{
	struct hwt_record *record = stack_take_all(&stack);

	while (record != NULL) {
		struct hwt_record *next = record->link;

		record->place = 0;
		taken++;
		record = next;
	}
	return unused;
}

int main(void)
{
	pthread_t executors[2], worker;

	executors[0] = weak_start(push);
	executors[1] = weak_start(push_too);
	worker = weak_start(take);
	pthread_join(executors[0], NULL);
	pthread_join(executors[1], NULL);
	pthread_join(worker, NULL);
	take(NULL);
	assert(taken == 2);
	return 0;
}
