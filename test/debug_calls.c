/* SPDX-License-Identifier: BSD-2-Clause */
/* A debug build (HWT_DEBUG) ends the process at a handle of a timer that has been destroyed, and says so. */
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

static unsigned which_call;

static hwt_timeout handle_of_a_destroyed_timer(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer = driven_timer();

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
		check_aborts(use_a_dead_handle, "hwt: a handle of a timer that has been destroyed");
}

static void use_good_handles(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer;

	(void)handle_of_a_destroyed_timer();
	timer = driven_timer();
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

TEST_MAIN()
