/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that share a commit: the puts of a store, or its cancels.
 *
 * Structure
 *
 *   A call queues its request.  If no thread leads, the caller does: it takes the requests that wait, executes them in
 *   one transaction, and wakes their threads.  Meanwhile the next requests gather.  No call waits for others to join
 *   it.
 *
 *   A transaction of a user may have locked a row that a call needs, and its thread may make a call of its own before
 *   it commits.  So a leader does not wait long for a lock.  The thread whose request met the lock executes that
 *   request again alone, and no other call waits for it.
 *
 * Threads
 *
 *   commit.lock guards the queue and each request until it is done.  Only the leader touches the requests it has taken.
 */
#include "store/commit.h"
#include "store/store.h"

void hwts_commit_init(struct hwts_commit *commit, hwts_commit_act *act)
{
	commit->act = act;
	commit->end = &commit->first;
	pthread_mutex_init(&commit->lock, NULL);
	hwts_cond_init(&commit->done);
}

void hwts_commit_destroy(struct hwts_commit *commit)
{
	pthread_mutex_destroy(&commit->lock);
	pthread_cond_destroy(&commit->done);
}

/*
 * The caller holds commit->lock.  Takes the requests that wait, executes them without the lock, and wakes their
 * threads.
 */
static void lead(hwt_store *store, struct hwts_commit *commit)
{
	struct hwts_request *requests = commit->first, *last = requests;
	size_t n = 1, bytes = last->bytes;

	for (; n < store->config.batch && bytes < HWTS_PUT_BYTES && last->next; n++) {
		last = last->next;
		bytes += last->bytes;
	}
	commit->first = last->next;
	if (!commit->first)
		commit->end = &commit->first;
	last->next = NULL;
	commit->led = true;
	pthread_mutex_unlock(&commit->lock);
	commit->act(store, requests, n);
	pthread_mutex_lock(&commit->lock);
	commit->led = false;
	for (struct hwts_request *next; requests; requests = next) {
		next = requests->next;
		requests->done = true; /* its thread may return from now on */
	}
	pthread_cond_broadcast(&commit->done);
}

void hwts_commit_do(hwt_store *store, struct hwts_commit *commit, struct hwts_request *request)
{
	pthread_mutex_lock(&commit->lock);
	*commit->end = request;
	commit->end = &request->next;
	HWTS_POINT("queued");
	while (!request->done) {
		if (commit->led)
			/* Woken by the leader; after a second the thread checks by itself. */
			hwts_wait_ns(&commit->done, &commit->lock, HWT_S(1));
		else
			lead(store, commit);
	}
	pthread_mutex_unlock(&commit->lock);
	if (request->alone) {
		request->next = NULL;
		HWTS_POINT("alone");
		commit->act(store, request, 1);
	}
}

void hwts_commit_text(struct hwts_request *request)
{
	hwts_cut(request->text, sizeof(request->text), hwts_fail_text(), strlen(hwts_fail_text()));
}
