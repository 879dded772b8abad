/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts that an actor of the torture (torture_actor.c) and its putters (torture_putter.c) share. */
#ifndef HWT_TORTURE_ACTOR_H
#define HWT_TORTURE_ACTOR_H

#include "torture.h"

#include "inside.h"

struct putter;

#define TORTURE_PULLERS 4

struct actor_self {
	hwt_store *store;
	const char *url;
	struct orders *orders;
	int log;
	uint64_t first_item;
	atomic_uint items;
	struct putter *putters;
	bool pulls;
	pthread_t pullers[TORTURE_PULLERS];
};

extern volatile sig_atomic_t asked_to_end;

/* Starts the threads that put, cancel and reschedule until the conductor wants quiet, and waits for their ends. */
bool putters_start(struct actor_self *self, uint64_t seed);
void putters_join(struct actor_self *self);

/* In a task, on its connection: puts a timeout that exists if and only if the task's transaction commits. */
int put_in_task(struct actor_self *self, const hwt_store_run *run, uint64_t *random);
/* In a task: replaces the task's own timeout, which runs. */
void replace_own(struct actor_self *self, const hwt_store_run *run, uint64_t *random);

#endif
