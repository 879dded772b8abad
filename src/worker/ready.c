/* SPDX-License-Identifier: BSD-2-Clause */
/* A list under a mutex; ready.h. */
#include "worker/ready.h"

int hwt_ready_init(struct hwt_ready *ready)
{
	*ready = (struct hwt_ready){ .put = 0 };
	return hwt_monitor_init(&ready->monitor);
}

void hwt_ready_destroy(struct hwt_ready *ready)
{
	hwt_monitor_destroy(&ready->monitor);
}

static void count_waiting(struct hwt_ready *ready)
{
	/* Relaxed: only a number for statistics. */
	atomic_store_explicit(&ready->waiting, ready->put - ready->taken, memory_order_relaxed);
}

/* Wakes at most one thread a record.  Call after the unlock: a thread woken before would wait for the mutex. */
static void wake(struct hwt_ready *ready, uint64_t records, uint32_t sleeping)
{
	if (records >= sleeping && sleeping > 1)
		pthread_cond_broadcast(&ready->monitor.changed);
	else
		for (uint32_t i = 0; i < sleeping && i < records; i++)
			pthread_cond_signal(&ready->monitor.changed);
}

void hwt_ready_put(struct hwt_ready *ready, const struct hwt_ready_chain *chain, int64_t now_ns)
{
	uint32_t sleeping;

	pthread_mutex_lock(&ready->monitor.mutex);
	if (ready->first == NULL)
		ready->first = chain->first;
	else
		ready->last->link = chain->first;
	ready->last = chain->last;
	ready->put += chain->count;
	if (ready->mark <= ready->taken) {
		ready->mark = ready->put;
		ready->mark_ns = now_ns;
	}
	count_waiting(ready);
	sleeping = ready->sleeping;
	pthread_mutex_unlock(&ready->monitor.mutex);
	wake(ready, chain->count, sleeping);
}

/* Takes the oldest record, under the mutex.  Returns NULL if there is none. */
static struct hwt_record *take_first(struct hwt_ready *ready, int64_t *put_ns)
{
	struct hwt_record *record = ready->first;

	*put_ns = READY_NOT_MARKED;
	if (record == NULL)
		return NULL;
	ready->first = record->link;
	if (ready->first != NULL)
		record_prefetch(ready->first);
	ready->taken++;
	count_waiting(ready);
	if (ready->taken == ready->mark)
		*put_ns = ready->mark_ns;
	return record;
}

struct hwt_record *hwt_ready_take(struct hwt_ready *ready, int64_t *put_ns)
{
	struct hwt_record *record = NULL;

	pthread_mutex_lock(&ready->monitor.mutex);
	while (!ready->closed && (record = take_first(ready, put_ns)) == NULL) {
		ready->sleeping++;
		hwt_monitor_wait(&ready->monitor, INT64_MAX);
		ready->sleeping--;
	}
	pthread_mutex_unlock(&ready->monitor.mutex);
	return record;
}

void hwt_ready_close(struct hwt_ready *ready)
{
	pthread_mutex_lock(&ready->monitor.mutex);
	ready->closed = true;
	pthread_cond_broadcast(&ready->monitor.changed);
	pthread_mutex_unlock(&ready->monitor.mutex);
}

struct hwt_record *hwt_ready_take_left(struct hwt_ready *ready)
{
	int64_t put_ns;

	return take_first(ready, &put_ns);
}
