/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer in a loop that waits on a condition variable: the queue of an actor, of a GUI, of a pool's dispatcher.
 *
 *     any thread                                  the thread of the loop
 *     hwt_new_timeout --> on_earlier --> signal --> wakes, hwt_timer_advance, sleeps until *next_ns
 *
 * on_earlier is called where a loop with poll would find the descriptor readable: another thread has scheduled
 * something that is due before the time until which the loop sleeps.  Without it the loop would sleep through that.
 *
 *     condvar_loop MS...   a second thread schedules all of them, and the loop prints each when it is due
 */
#include <hwt.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loop {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool earlier;   /* advance before the time that was told */
	unsigned lines; /* still to be printed; only the loop's thread counts */
	hwt_timer *timer;
};

/* Any thread that schedules; none does so with the mutex held. */
static void wake(void *ctx)
{
	struct loop *loop = ctx;

	pthread_mutex_lock(&loop->mutex);
	loop->earlier = true;
	pthread_cond_signal(&loop->changed);
	pthread_mutex_unlock(&loop->mutex);
}

/* Until a time on the clock of hwt_now(), or until woken. */
static void sleep_until(struct loop *loop, int64_t time_ns)
{
	struct timespec until = { (time_t)(time_ns / HWT_S(1)), (long)(time_ns % HWT_S(1)) };
	int rc = 0;

	pthread_mutex_lock(&loop->mutex);
	while (!loop->earlier && rc == 0)
		rc = time_ns == INT64_MAX ? pthread_cond_wait(&loop->changed, &loop->mutex)
					  : pthread_cond_timedwait(&loop->changed, &loop->mutex, &until);
	loop->earlier = false; /* the advance that follows sees what there was to tell */
	pthread_mutex_unlock(&loop->mutex);
}

static void run(struct loop *loop)
{
	int64_t next_ns = 0;

	while (loop->lines > 0 && hwt_timer_advance(loop->timer, hwt_now(), &next_ns) == 0)
		if (loop->lines > 0 && next_ns > hwt_now())
			sleep_until(loop, next_ns);
}

struct line {
	struct loop *loop;
	const char *text;
};

/* On the thread of the loop. */
static void print_line(hwt_timeout timeout, void *arg)
{
	struct line *line = arg;

	(void)timeout;
	printf("%s\n", line->text);
	line->loop->lines--;
}

struct producer {
	struct line *lines;
	int count;
};

static void *schedule_all(void *arg)
{
	struct producer *producer = arg;
	struct timespec pause = { 0, 1000000 };

	for (int i = 0; i < producer->count; i++) {
		struct line *line = &producer->lines[i];
		int rc = hwt_new_timeout(line->loop->timer, print_line, line, HWT_MS(atoi(line->text)), NULL);

		if (rc != 0) {
			fprintf(stderr, "schedule: %s\n", strerror(rc));
			exit(1);
		}
		nanosleep(&pause, NULL); /* the loop goes to sleep in between */
	}
	return NULL;
}

static void init(struct loop *loop)
{
	hwt_config config = HWT_CONFIG_INIT;
	pthread_condattr_t attr;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&loop->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&loop->mutex, NULL);
	config.flags = HWT_CALLER_DRIVEN;
	config.tick_duration_ns = HWT_MS(1);
	config.on_earlier = wake;
	config.on_earlier_ctx = loop;
	rc = hwt_timer_create(&loop->timer, &config);
	if (rc != 0) {
		fprintf(stderr, "timer: %s\n", strerror(rc));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct loop loop = { .earlier = false };
	struct line *lines = calloc((size_t)argc, sizeof(*lines));
	struct producer producer = { lines, argc - 1 };
	pthread_t thread;

	if (lines == NULL)
		return 1;
	init(&loop);
	for (int i = 1; i < argc; i++)
		lines[i - 1] = (struct line){ &loop, argv[i] };
	loop.lines = (unsigned)(argc - 1);
	if (pthread_create(&thread, NULL, schedule_all, &producer) != 0)
		return 1;
	run(&loop);
	pthread_join(thread, NULL);
	if (hwt_timer_destroy(loop.timer) != 0)
		return 1;
	pthread_cond_destroy(&loop.changed);
	pthread_mutex_destroy(&loop.mutex);
	free(lines);
	return 0;
}
