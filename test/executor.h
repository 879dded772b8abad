/* SPDX-License-Identifier: BSD-2-Clause */
/* A pool of threads as executor.  Its queue is bounded; it refuses what does not fit, and more if told to. */
#ifndef HWT_TEST_EXECUTOR_H
#define HWT_TEST_EXECUTOR_H

#include "support.h"

#define POOL_QUEUE 65536

struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct {
		void (*run)(void *job);
		void *job;
	} queue[POOL_QUEUE];
	unsigned first, count, capacity;
	bool closed;
	unsigned refuse_every, asked, refused;
	struct crew crew;
};

static inline int pool_execute(void *ctx, void (*run)(void *job), void *job)
{
	struct pool *pool = ctx;
	int rc = 0;

	pthread_mutex_lock(&pool->mutex);
	if (pool->count == pool->capacity || (pool->refuse_every && ++pool->asked % pool->refuse_every == 0)) {
		pool->refused++;
		rc = EAGAIN;
	} else {
		unsigned at = (pool->first + pool->count++) % POOL_QUEUE;

		pool->queue[at].run = run;
		pool->queue[at].job = job;
	}
	pthread_cond_signal(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
	return rc;
}

static inline void *pool_thread(void *arg)
{
	struct pool *pool = arg;

	pthread_mutex_lock(&pool->mutex);
	for (;;) {
		void (*run)(void *job);
		void *job;

		while (pool->count == 0 && !pool->closed)
			pthread_cond_wait(&pool->changed, &pool->mutex);
		if (pool->count == 0)
			break;
		run = pool->queue[pool->first].run;
		job = pool->queue[pool->first].job;
		pool->first = (pool->first + 1) % POOL_QUEUE;
		pool->count--;
		pthread_mutex_unlock(&pool->mutex);
		run(job);
		pthread_mutex_lock(&pool->mutex);
	}
	pthread_mutex_unlock(&pool->mutex);
	return NULL;
}

static inline void pool_start(struct pool *pool, unsigned threads)
{
	memset(pool, 0, sizeof(*pool));
	pool->capacity = POOL_QUEUE;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->changed, NULL);
	crew_start(&pool->crew, threads, pool_thread, pool, 0);
}

static inline void pool_stop(struct pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	pool->closed = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
	crew_join(&pool->crew);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->mutex);
}

#endif
