/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks on GLib's thread pool, so that a slow one does not make the others late.
 *
 *     $ build/examples/executor_glib
 *     lateness of quick tasks, beside one of 20 ms every 40 ms:
 *     on the worker     p50   7.8 ms   p99  20.3 ms   max  20.9 ms
 *     on a pool         p50   0.6 ms   p99   1.2 ms   max   1.3 ms
 */
#include <hwt.h>

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUICK 1000
#define SLOW 25
#define SLOW_MS 20

struct quick {
	int64_t deadline_ns, late_ns;
};

static struct quick quick[QUICK];

static void fail(const char *what, int rc)
{
	fprintf(stderr, "executor_glib: %s: %s\n", what, strerror(rc));
	exit(1);
}

static void quick_task(hwt_timeout timeout, void *arg)
{
	struct quick *mine = arg;

	(void)timeout;
	mine->late_ns = hwt_now() - mine->deadline_ns;
}

static void slow_task(hwt_timeout timeout, void *arg)
{
	struct timespec pause = { 0, SLOW_MS * 1000000 };

	(void)timeout;
	(void)arg;
	nanosleep(&pause, NULL);
}

/*
 * The executor: all there is to it.
 */

struct job {
	void (*run)(void *job);
	void *job;
};

static void run_job(gpointer data, gpointer user_data)
{
	struct job job = *(struct job *)data;

	(void)user_data;
	g_free(data);
	job.run(job.job);
}

static int execute(void *ctx, void (*run)(void *job), void *job)
{
	struct job *mine = g_try_new(struct job, 1);

	if (mine == NULL)
		return ENOMEM; /* then the worker runs it */
	*mine = (struct job){ run, job };
	g_thread_pool_push(ctx, mine, NULL);
	return 0;
}

static int by_lateness(const void *a, const void *b)
{
	int64_t first = ((const struct quick *)a)->late_ns, second = ((const struct quick *)b)->late_ns;

	return (first > second) - (first < second);
}

static void measure(const char *name, const hwt_executor *executor)
{
	hwt_config config = HWT_CONFIG_INIT;
	int64_t start_ns;
	hwt_timer *timer;
	int rc;

	config.tick_duration_ns = HWT_MS(1);
	config.executor = executor;
	rc = hwt_timer_create(&timer, &config);
	if (rc != 0)
		fail("timer", rc);
	start_ns = hwt_now() + HWT_MS(10);
	for (int i = 0; i < SLOW && rc == 0; i++)
		rc = hwt_new_timeout_at(timer, slow_task, NULL, start_ns + HWT_MS(2 * SLOW_MS) * i, NULL);
	for (int i = 0; i < QUICK && rc == 0; i++) {
		quick[i].deadline_ns = start_ns + HWT_MS(2 * SLOW_MS) * SLOW / QUICK * i;
		rc = hwt_new_timeout_at(timer, quick_task, &quick[i], quick[i].deadline_ns, NULL);
	}
	if (rc != 0)
		fail("schedule", rc);
	while (hwt_pending_timeouts(timer) > 0)
		g_usleep(10000);
	rc = hwt_timer_destroy(timer); /* waits for those that run */
	if (rc != 0)
		fail("destroy", rc);
	qsort(quick, QUICK, sizeof(*quick), by_lateness);
	printf("%-14s p50 %5.1f ms   p99 %5.1f ms   max %5.1f ms\n", name, (double)quick[QUICK / 2].late_ns / 1e6,
	       (double)quick[QUICK * 99 / 100].late_ns / 1e6, (double)quick[QUICK - 1].late_ns / 1e6);
}

int main(void)
{
	GThreadPool *pool = g_thread_pool_new(run_job, NULL, 4, TRUE, NULL);
	hwt_executor executor = { execute, pool };

	printf("lateness of quick tasks, beside one of %d ms every %d ms:\n", SLOW_MS, 2 * SLOW_MS);
	measure("on the worker", NULL);
	measure("on a pool", &executor);
	g_thread_pool_free(pool, FALSE, TRUE);
	return 0;
}
