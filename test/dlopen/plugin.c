/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plugin that uses the library: linked with libhwt.so, or with libhwt.a inside.  It has much thread-local memory, as
 * language runtimes and network libraries have.
 */
#include <hwt.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define OWN_BYTES 16384

static _Thread_local char own[OWN_BYTES];
static atomic_uint ran;

/* Used by a thread of the plugin and by the worker, so that two threads have the memory. */
static void task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	memset(own, 2, sizeof(own));
	atomic_fetch_add(&ran, 1);
}

/* Makes a thread's first call into the library, which must find correct thread-local memory. */
static void *first_calls(void *arg)
{
	hwt_timer *timer = arg;
	hwt_timeout timeout;

	memset(own, 1, sizeof(own));
	if (hwt_new_timeout(timer, task, NULL, 0, NULL) != 0)
		return "hwt_new_timeout";
	if (hwt_new_timeout(timer, task, NULL, HWT_S(3600), &timeout) != 0 || hwt_cancel(timeout) != 0)
		return "hwt_cancel";
	for (size_t i = 0; i < sizeof(own); i++)
		if (own[i] != 1)
			return "thread-local memory";
	return NULL;
}

static const char *with_threads(hwt_timer *timer)
{
	enum { THREADS = 3 };
	pthread_t thread[THREADS];
	void *wrong = first_calls(timer);

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, first_calls, timer) != 0)
			return "pthread_create";
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(thread[i], &result);
		wrong = wrong != NULL ? wrong : result;
	}
	for (int ms = 0; ms < 20000 && atomic_load(&ran) < THREADS + 1; ms++)
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	return wrong != NULL || atomic_load(&ran) == THREADS + 1 ? wrong : "not all have run";
}

/* Runs the plugin.  Returns NULL, or the fault. */
HWT_API const char *plugin_run(void)
{
	hwt_timer *timer;
	const char *wrong;

	atomic_store(&ran, 0);
	if (hwt_timer_create(&timer, NULL) != 0)
		return "hwt_timer_create";
	wrong = with_threads(timer);
	if (hwt_timer_destroy(timer) != 0 && wrong == NULL)
		wrong = "hwt_timer_destroy";
	return wrong;
}
