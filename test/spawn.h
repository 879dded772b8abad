/* SPDX-License-Identifier: BSD-2-Clause */
/* A timer with a worker and, if wanted, an executor that makes a thread for each job. */
#ifndef HWT_TEST_SPAWN_H
#define HWT_TEST_SPAWN_H

#include "support.h"

struct spawned {
	void (*run)(void *job);
	void *job;
};

static void *spawned_main(void *arg)
{
	struct spawned spawned = *(struct spawned *)arg;

	free(arg);
	spawned.run(spawned.job);
	return NULL;
}

static int spawn(void *ctx, void (*run)(void *job), void *job)
{
	struct spawned *spawned = malloc(sizeof(*spawned));
	pthread_t thread;

	(void)ctx;
	REQUIRE(spawned != NULL);
	*spawned = (struct spawned){ run, job };
	if (pthread_create(&thread, NULL, spawned_main, spawned) != 0) {
		free(spawned);
		return EAGAIN;
	}
	pthread_detach(thread);
	return 0;
}

static hwt_timer *spawn_timer(int64_t tick_ns, bool with_executor)
{
	hwt_executor executor = { spawn, NULL };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = tick_ns;
	config.executor = with_executor ? &executor : NULL;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

#endif
