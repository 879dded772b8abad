/* SPDX-License-Identifier: BSD-2-Clause */
/* What all rooms above use: warnings, the check of a store, its phase, back-off, the lock and the threads. */
#include "store/store.h"

#include <stdio.h>
#include <unistd.h>

void hwts_warn(hwt_store *store, const char *format, ...)
{
	char text[1600], failure[HWTS_FAILURE_MAX];
	va_list args;

	if (!store->config.warn)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	hwts_cut(failure, sizeof(failure), hwts_fail_text(), strlen(hwts_fail_text()));
	store->config.warn(store->config.warn_ctx, text); /* may call the store, which clears the text of the failure */
	(void)hwts_fail(0, "%s", failure);
}

/*
 * A forked child has neither the threads nor SQLite's locks, and shares the connections to a server with its parent:
 * any use would spoil them.
 */
int hwts_check_store(const hwt_store *store)
{
	if (!store)
		return hwts_fail(EINVAL, "the store is NULL");
	return store->pid == getpid() ? 0
				      : hwts_fail(EINVAL, "the store was opened before a fork: open one in the child");
}

enum hwts_phase hwts_phase(const hwt_store *store)
{
	return store->life->phase;
}

int64_t hwts_backoff_ns(unsigned failures)
{
	int64_t ns = HWT_MS(20) << HWTS_MIN(failures, 6); /* up to 1.9 s */

	return ns / 2 + (int64_t)(hwts_random() % (uint64_t)ns);
}

/*
 * The lock and the threads
 */

void hwts_threads_init(hwt_store *store)
{
	pthread_mutex_init(&store->lock, NULL);
	hwts_cond_init(&store->stirred);
	for (size_t i = 0; i < HWTS_ROLES; i++)
		hwts_cond_init(&store->threads[i].work);
}

void hwts_threads_destroy(hwt_store *store)
{
	pthread_mutex_destroy(&store->lock);
	pthread_cond_destroy(&store->stirred);
	for (size_t i = 0; i < HWTS_ROLES; i++)
		pthread_cond_destroy(&store->threads[i].work);
}

int hwts_threads_start(hwt_store *store, enum hwts_role role, void *(*run)(void *), unsigned n)
{
	struct hwts_threads *threads = &store->threads[role];
	int rc = 0;

	threads->halt = false;
	threads->ids = hwts_alloc(n * sizeof(*threads->ids));
	if (!threads->ids)
		return ENOMEM;
	while (rc == 0 && threads->count < n) {
		rc = hwts_thread(&threads->ids[threads->count], run, store);
		threads->count += rc == 0;
	}
	return rc == 0 ? 0 : hwts_fail_errno(rc, "a thread");
}

void hwts_threads_join(hwt_store *store, enum hwts_role role)
{
	struct hwts_threads *threads = &store->threads[role];

	for (unsigned i = 0; i < threads->count; i++)
		pthread_join(threads->ids[i], NULL);
	free(threads->ids);
	threads->ids = NULL;
	threads->count = 0;
}

struct hwts_conn **hwts_conn_of(hwt_store *store, enum hwts_role role)
{
	return &store->threads[role].conn;
}

void hwts_lock(hwt_store *store)
{
	pthread_mutex_lock(&store->lock);
}

void hwts_unlock(hwt_store *store)
{
	pthread_mutex_unlock(&store->lock);
}

void hwts_wake(hwt_store *store, enum hwts_role role)
{
	if (!HWTS_TEST(loses_wakes))
		pthread_cond_signal(&store->threads[role].work);
}

void hwts_wake_all(hwt_store *store, enum hwts_role role)
{
	pthread_cond_broadcast(&store->threads[role].work);
}

void hwts_wait(hwt_store *store, enum hwts_role role)
{
	pthread_cond_wait(&store->threads[role].work, &store->lock);
}

void hwts_wait_for(hwt_store *store, enum hwts_role role, int64_t ns)
{
	hwts_wait_ns(&store->threads[role].work, &store->lock, ns);
}

void hwts_halt(hwt_store *store, enum hwts_role role)
{
	store->threads[role].halt = true;
	hwts_wake_all(store, role);
}

bool hwts_halts(const hwt_store *store, enum hwts_role role)
{
	return store->threads[role].halt;
}

void hwts_rest(hwt_store *store, unsigned *failures)
{
	hwts_wait_stirred(store, hwts_backoff_ns(++*failures));
}

void hwts_stir(hwt_store *store)
{
	pthread_cond_broadcast(&store->stirred);
}

void hwts_wait_stirred(hwt_store *store, int64_t ns)
{
	hwts_wait_ns(&store->stirred, &store->lock, ns);
}
