/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces libhwt, which has a simulation of its own: a timer with a worker that comes to each deadline at the end of
 * its tick, or some time later.
 */
#include "sim.h"

#include <stdlib.h>

#define ENTRIES 4096

struct entry {
	struct hwt_timer *timer;
	uint64_t generation; /* 0: free */
	hwt_task *task;
	void *arg;
	int64_t deadline_ns;
	struct entry *next;
};

struct hwt_timer {
	struct sim_process *process;
	struct sim_actor *worker;
	int64_t tick_ns;
	bool halt;
	struct entry *free, *slabs;
	struct entry **heap;
	size_t count, room;
};

static uint64_t generations;

static bool is_before(const struct entry *a, const struct entry *b)
{
	return a->deadline_ns < b->deadline_ns;
}

static void push(hwt_timer *timer, struct entry *entry)
{
	size_t i = timer->count++;

	if (timer->count > timer->room) {
		timer->room = timer->room ? 2 * timer->room : 64;
		timer->heap = realloc(timer->heap, timer->room * sizeof(struct entry *));
	}
	for (; i > 0 && is_before(entry, timer->heap[(i - 1) / 2]); i = (i - 1) / 2)
		timer->heap[i] = timer->heap[(i - 1) / 2];
	timer->heap[i] = entry;
}

static struct entry *pop(hwt_timer *timer)
{
	struct entry *first = timer->heap[0], *last = timer->heap[--timer->count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < timer->count) {
		child += child + 1 < timer->count && is_before(timer->heap[child + 1], timer->heap[child]);
		if (!is_before(timer->heap[child], last))
			break;
		timer->heap[i] = timer->heap[child];
		i = child;
	}
	if (timer->count > 0)
		timer->heap[i] = last;
	return first;
}

static void run_first(hwt_timer *timer)
{
	struct entry *entry = pop(timer);
	hwt_timeout timeout = { entry, entry->generation };
	hwt_task *task = entry->task;
	void *arg = entry->arg;

	entry->generation = 0;
	entry->next = timer->free;
	timer->free = entry;
	if (task)
		task(timeout, arg);
}

/* Deadlines are on the process's clock. */
static int64_t ring_ns(const hwt_timer *timer)
{
	int64_t deadline_ns = timer->heap[0]->deadline_ns;

	if (deadline_ns > INT64_MAX / 2 - timer->tick_ns)
		return SIM_NEVER;
	return (deadline_ns / timer->tick_ns + 1) * timer->tick_ns - timer->process->mono_ns;
}

static void *work(void *arg)
{
	hwt_timer *timer = arg;

	while (!timer->halt) {
		int64_t until_ns = timer->count > 0 ? ring_ns(timer) : SIM_NEVER;

		if (until_ns > sim_now())
			(void)sim_wait("waits for a tick", timer, until_ns);
		else
			run_first(timer);
	}
	return NULL;
}

int hwt_timer_create(hwt_timer **out, const hwt_config *config)
{
	hwt_timer *timer = calloc(1, sizeof(*timer));

	timer->process = sim_me();
	timer->tick_ns = config->tick_duration_ns;
	*out = timer;
	return 0;
}

int hwt_timer_start(hwt_timer *timer)
{
	timer->worker = sim_start(timer->process, "timer", work, timer);
	return 0;
}

int hwt_timer_destroy(hwt_timer *timer)
{
	timer->halt = true;
	sim_wake_all(timer);
	(void)sim_join(timer->worker);
	for (struct entry *slab = timer->slabs, *next; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
	free(timer->heap);
	free(timer);
	return 0;
}

static struct entry *make(hwt_timer *timer)
{
	struct entry *entry = timer->free;

	if (!entry) {
		entry = calloc(65, sizeof(*entry)); /* the first entry links the slabs */
		entry->next = timer->slabs;
		timer->slabs = entry;
		for (int i = 1; i < 65; i++) {
			entry[i].next = timer->free;
			timer->free = &entry[i];
		}
		entry = timer->free;
	}
	timer->free = entry->next;
	return entry;
}

int hwt_new_timeout_at(hwt_timer *timer, hwt_task *task, void *arg, int64_t deadline_ns, hwt_timeout *out)
{
	struct entry *entry = make(timer);

	*entry = (struct entry){ timer, ++generations, task, arg, deadline_ns, NULL };
	*out = (hwt_timeout){ entry, entry->generation };
	push(timer, entry);
	if (timer->heap[0] == entry)
		sim_wake_all(timer);
	return 0;
}

int hwt_cancel(hwt_timeout timeout)
{
	struct entry *entry = timeout.entry;

	if (!entry || entry->generation != timeout.generation || !entry->task)
		return ENOENT;
	entry->task = NULL; /* removed from the heap when its time comes */
	return 0;
}

void hwt_warn_stderr(void *ctx, const char *message)
{
	(void)ctx;
	sim_tell("%s", message);
}
