/* SPDX-License-Identifier: BSD-2-Clause */
/* A list under a mutex; ready.h. */
#include "worker/ready.h"

int hwt_ready_init(struct hwt_ready *ready)
{
	*ready = (struct hwt_ready){ .many = READY_MANY };
	return hwt_monitor_init(&ready->monitor);
}

void hwt_ready_destroy(struct hwt_ready *ready)
{
	hwt_monitor_destroy(&ready->monitor);
}

static struct hwt_ready_stamp *stamp_at(struct hwt_ready *ready, uint32_t i)
{
	return &ready->stamp[(ready->stamp_first + i) % READY_STAMPS];
}

/* Stamps the record that was put last.  The newest stamp moves on if all are in use: T2. */
static void set_mark(struct hwt_ready *ready, int64_t now_ns)
{
	if (ready->stamps < READY_STAMPS)
		ready->stamps++;
	*stamp_at(ready, ready->stamps - 1) = (struct hwt_ready_stamp){ ready->put, now_ns };
}

static void count_waiting(struct hwt_ready *ready)
{
	/* Relaxed: it only counts. */
	atomic_store_explicit(&ready->waiting, ready->put - ready->taken, memory_order_relaxed);
}

/* Wakes no more threads than there are records, after the unlock, for which they would wait. */
static void wake(struct hwt_ready *ready, uint64_t records, uint32_t sleeping)
{
	if (records >= sleeping && sleeping > 1)
		pthread_cond_broadcast(&ready->monitor.changed);
	else
		for (uint32_t i = 0; i < sleeping && i < records; i++)
			pthread_cond_signal(&ready->monitor.changed);
}

/* Returns how many are to wait before the next search for cancelled ones, if so many wait now. */
static uint64_t many_after(uint64_t waiting)
{
	return waiting > READY_MANY / 2 ? 2 * waiting : READY_MANY;
}

/*
 * Takes the cancelled records out.  A stamp moves down to the last record of its chain that is left, which has waited
 * as long; a chain of which none is left loses its stamp (T2).
 *
 * A cancel may come behind this search: its record stays until the next one, or until a thread takes it.
 */
static void sweep(struct hwt_ready *ready, struct hwt_ready_chain *cancelled)
{
	struct hwt_ready_chain left = { NULL, NULL, 0 };
	uint64_t nth = ready->taken, stamped = nth;
	uint32_t seen = 0, kept = 0;

	for (struct hwt_record *record = ready->first, *next; record != NULL; record = next) {
		next = record->link;
		if (next != NULL)
			record_prefetch(next);
		ready_chain_append(word_state(record_word(record)) == STATE_READY ? &left : cancelled, record);
		if (seen == ready->stamps || stamp_at(ready, seen)->nth != ++nth)
			continue;
		if (ready->taken + left.count > stamped) {
			stamped = ready->taken + left.count;
			*stamp_at(ready, kept++) = (struct hwt_ready_stamp){ stamped, stamp_at(ready, seen)->put_ns };
		}
		seen++;
	}
	ready->first = left.first;
	ready->last = left.last;
	ready->put = ready->taken + left.count;
	ready->stamps = kept;
	ready->many = many_after(left.count);
}

void hwt_ready_put(struct hwt_ready *ready, struct hwt_ready_chain *chain, int64_t now_ns)
{
	uint64_t records = chain->count, many;
	uint32_t sleeping;

	pthread_mutex_lock(&ready->monitor.mutex);
	many = many_after(ready->put - ready->taken);
	if (many < ready->many) /* threads have taken some since the last search */
		ready->many = many;
	if (ready->first == NULL)
		ready->first = chain->first;
	else
		ready->last->link = chain->first;
	ready->last = chain->last;
	ready->put += chain->count;
	set_mark(ready, now_ns);
	*chain = (struct hwt_ready_chain){ NULL, NULL, 0 };
	if (ready->put - ready->taken >= ready->many)
		sweep(ready, chain);
	count_waiting(ready);
	sleeping = ready->sleeping;
	pthread_mutex_unlock(&ready->monitor.mutex);
	wake(ready, records, sleeping);
}

/* Takes the oldest record, under the mutex; NULL: there is none. */
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
	if (ready->stamps > 0 && stamp_at(ready, 0)->nth == ready->taken) {
		*put_ns = stamp_at(ready, 0)->put_ns;
		ready->stamp_first = (ready->stamp_first + 1) % READY_STAMPS;
		ready->stamps--;
	}
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
