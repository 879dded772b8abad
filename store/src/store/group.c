/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups: calls that share a commit.
 *
 * Structure
 *
 *   A call joins its group.  If nobody leads it, this thread does: it takes all that wait, does them in one
 *   transaction, and wakes their threads.  While that commits the next gather.  No call waits in order to be joined by
 *   others.
 *
 *   A transaction of a user may have locked what a call needs, and its thread may make a call of its own before it
 *   ends that.  So a leader does not wait long for a lock: the call that has met one is done again by its own thread,
 *   which nobody waits for.
 *
 * Threads
 *
 *   group.lock guards the queue and each request until it is done.  The leader alone touches the requests it has taken.
 */
#include "store/group.h"
#include "store/store.h"

void hwts_group_init(struct hwts_group *group, hwts_group_act *act)
{
	group->act = act;
	group->end = &group->first;
	pthread_mutex_init(&group->lock, NULL);
	hwts_cond_init(&group->done);
}

void hwts_group_destroy(struct hwts_group *group)
{
	pthread_mutex_destroy(&group->lock);
	pthread_cond_destroy(&group->done);
}

/* With the lock: takes what waits, does it without the lock, and wakes its threads. */
static void lead(hwt_store *store, struct hwts_group *group)
{
	struct hwts_request *requests = group->first, *last = requests;
	size_t n = 1, bytes = last->bytes;

	for (; n < store->config.batch && bytes < HWTS_PUT_BYTES && last->next; n++) {
		last = last->next;
		bytes += last->bytes;
	}
	group->first = last->next;
	if (!group->first)
		group->end = &group->first;
	last->next = NULL;
	group->led = true;
	pthread_mutex_unlock(&group->lock);
	group->act(store, requests, n);
	pthread_mutex_lock(&group->lock);
	group->led = false;
	for (struct hwts_request *next; requests; requests = next) {
		next = requests->next;
		requests->done = true; /* its thread may return now */
	}
	pthread_cond_broadcast(&group->done);
}

void hwts_group_do(hwt_store *store, struct hwts_group *group, struct hwts_request *request)
{
	pthread_mutex_lock(&group->lock);
	*group->end = request;
	group->end = &request->next;
	HWTS_POINT("queued");
	while (!request->done) {
		if (group->led)
			hwts_wait_ns(&group->done, &group->lock, HWT_S(1)); /* woken; or looks itself */
		else
			lead(store, group);
	}
	pthread_mutex_unlock(&group->lock);
	if (request->alone) {
		request->next = NULL;
		HWTS_POINT("alone");
		group->act(store, request, 1);
	}
}

void hwts_group_text(struct hwts_request *request)
{
	hwts_cut(request->text, sizeof(request->text), hwts_fail_text(), strlen(hwts_fail_text()));
}
