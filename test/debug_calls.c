/* SPDX-License-Identifier: BSD-2-Clause */
/* A debug build (HWT_DEBUG) ends the process where it is used wrongly, and says why; and only there. */
#include "support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `act` in a child.  Returns what that writes to stderr; *status is how it ends. */
static const char *said_by(void (*act)(void), int *status)
{
	static char text[512];
	size_t length = 0;
	ssize_t got;
	int ends[2];
	pid_t pid;

	REQUIRE(pipe(ends) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		alarm(HANG_S);
		(void)dup2(ends[1], STDERR_FILENO);
		act();
		_exit(0);
	}
	close(ends[1]);
	while (length < sizeof(text) - 1 && (got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(ends[0]);
	REQUIRE(waitpid(pid, status, 0) == pid);
	return text;
}

static void check_aborts(void (*act)(void), const char *message)
{
	int status = 0;
	const char *said = said_by(act, &status);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	if (strstr(said, message) == NULL) {
		fprintf(stderr, "said: %s\n", said);
		CHECK(strstr(said, message) != NULL);
	}
}

static void check_passes(void (*act)(void))
{
	int status = -1;
	const char *said = said_by(act, &status);

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(said[0] == '\0');
}

/*
 * A handle of a destroyed timer
 */

static unsigned which_call;

static hwt_timeout handle_of_a_destroyed_timer(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer = driven_timer(0);

	REQUIRE(hwt_new_timeout(timer, run_task, NULL, HWT_S(3600), &timeout) == 0);
	REQUIRE(hwt_timer_destroy(timer) == 0);
	return timeout;
}

static void use_a_dead_handle(void)
{
	hwt_timeout timeout = handle_of_a_destroyed_timer();
	int64_t left_ns;
	char text[64];

	switch (which_call) {
	case 0:
		(void)hwt_cancel(timeout);
		break;
	case 1:
		(void)hwt_cancel_sync(timeout);
		break;
	case 2:
		(void)hwt_reschedule(timeout, 1);
		break;
	case 3:
		(void)hwt_timeout_state(timeout);
		break;
	case 4:
		(void)hwt_timeout_timer(timeout);
		break;
	case 5:
		(void)hwt_timeout_left(timeout, &left_ns);
		break;
	default:
		(void)hwt_timeout_format(timeout, text, sizeof(text));
	}
}

TEST(a_handle_of_a_destroyed_timer_ends_the_process)
{
	for (which_call = 0; which_call < 7; which_call++)
		check_aborts(use_a_dead_handle, "hwt: a timer that has been destroyed");
}

static void use_a_dead_timer(void)
{
	hwt_timer *timer = driven_timer(0);
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_config config = HWT_CONFIG_INIT;
	int64_t ns;

	REQUIRE(hwt_timer_destroy(timer) == 0);
	switch (which_call) {
	case 0:
		(void)hwt_new_timeout(timer, run_task, NULL, 0, NULL);
		break;
	case 1:
		(void)hwt_timer_start(timer);
		break;
	case 2:
		(void)hwt_timer_stop(timer, NULL);
		break;
	case 3:
		(void)hwt_timer_destroy(timer);
		break;
	case 4:
		(void)hwt_timer_advance(timer, 0, NULL);
		break;
	case 5:
		(void)hwt_timer_stats(timer, &stats);
		break;
	case 6:
		(void)hwt_pending_timeouts(timer);
		break;
	case 7:
		(void)hwt_timer_config(timer, &config);
		break;
	case 8:
		(void)hwt_timer_user(timer);
		break;
	case 9:
		(void)hwt_timer_next(timer, &ns);
		break;
	default:
		(void)hwt_timer_grid(timer, &ns);
	}
}

TEST(a_call_with_a_destroyed_timer_ends_the_process)
{
	for (which_call = 0; which_call < 11; which_call++)
		check_aborts(use_a_dead_timer, "hwt: a timer that has been destroyed");
}

static void use_good_handles(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer;

	(void)handle_of_a_destroyed_timer();
	timer = driven_timer(0);
	CHECK_RC(hwt_new_timeout(timer, run_task, NULL, HWT_S(3600), &timeout), 0);
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_RC(hwt_cancel(timeout), ENOENT); /* stale, and harmless */
	CHECK_RC(hwt_cancel(HWT_TIMEOUT_NONE), ENOENT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(stale_handles_of_a_living_timer_are_harmless)
{
	check_passes(use_good_handles);
}

/*
 * A forked child
 */

static void (*in_the_child)(hwt_timer *timer, hwt_timeout timeout);

static void fork_and_use(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer = driven_timer(0);
	int status = 0;
	pid_t pid;

	REQUIRE(hwt_new_timeout(timer, run_task, NULL, HWT_S(3600), &timeout) == 0);
	pid = fork();
	if (pid == 0) {
		in_the_child(timer, timeout);
		_exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_RC(hwt_cancel(timeout), 0); /* the parent goes on */
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
}

static void cancel_in_the_child(hwt_timer *timer, hwt_timeout timeout)
{
	(void)timer;
	(void)hwt_cancel(timeout);
}

static void schedule_in_the_child(hwt_timer *timer, hwt_timeout timeout)
{
	(void)timeout;
	(void)hwt_new_timeout(timer, run_task, NULL, 1, NULL);
}

static void advance_in_the_child(hwt_timer *timer, hwt_timeout timeout)
{
	(void)timeout;
	(void)hwt_timer_advance(timer, hwt_now(), NULL);
}

static void destroy_in_the_child(hwt_timer *timer, hwt_timeout timeout)
{
	(void)timeout;
	(void)hwt_timer_destroy(timer);
}

static void make_one_in_the_child(hwt_timer *timer, hwt_timeout timeout)
{
	(void)timer;
	(void)timeout;
	use_good_handles();
}

TEST(a_call_in_a_forked_child_ends_it)
{
	static void (*const calls[])(hwt_timer *, hwt_timeout) = { cancel_in_the_child, schedule_in_the_child,
								   advance_in_the_child, destroy_in_the_child };

	for (unsigned i = 0; i < 4; i++) {
		in_the_child = calls[i];
		check_aborts(fork_and_use, "hwt: a call in a forked child, with a timer of its parent");
	}
}

TEST(a_forked_child_may_have_timers_of_its_own)
{
	in_the_child = make_one_in_the_child;
	check_passes(fork_and_use);
}

TEST_MAIN()
