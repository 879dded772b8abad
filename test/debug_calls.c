/* SPDX-License-Identifier: BSD-2-Clause */
/* A debug build (HWT_DEBUG) ends the process at a call with a destroyed timer, or with a handle of it, and says so. */
#include "support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `act` in a child process.  Returns its output on stderr; *status is its exit status. */
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

/* Checks that each call that `act` makes, by its number, prints its name and the timer. */
static void check_each(const char *const *calls, void (*act)(void), const char *dead)
{
	char call[64];

	for (which_call = 0; calls[which_call]; which_call++) {
		(void)snprintf(call, sizeof(call), "hwt: %s: the timer 0x", calls[which_call]);
		check_aborts(act, call);
		check_aborts(act, dead);
	}
}

static hwt_timeout handle_of_a_destroyed_timer(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer = driven_timer();

	REQUIRE(hwt_new_timeout(timer, run_task, NULL, HWT_S(3600), &timeout) == 0);
	REQUIRE(hwt_timer_destroy(timer) == 0);
	return timeout;
}

static const char *const calls_of_handles[] = {
	"hwt_cancel",        "hwt_cancel_sync",    "hwt_reschedule",     "hwt_reschedule_at",
	"hwt_timeout_state", "hwt_is_expired",     "hwt_is_cancelled",   "hwt_timeout_timer",
	"hwt_timeout_left",  "hwt_timeout_missed", "hwt_timeout_format", NULL,
};

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
		(void)hwt_reschedule_at(timeout, 1);
		break;
	case 4:
		(void)hwt_timeout_state(timeout);
		break;
	case 5:
		(void)hwt_is_expired(timeout);
		break;
	case 6:
		(void)hwt_is_cancelled(timeout);
		break;
	case 7:
		(void)hwt_timeout_timer(timeout);
		break;
	case 8:
		(void)hwt_timeout_left(timeout, &left_ns);
		break;
	case 9:
		(void)hwt_timeout_missed(timeout);
		break;
	default:
		(void)hwt_timeout_format(timeout, text, sizeof(text));
	}
}

TEST(a_handle_of_a_destroyed_timer_ends_the_process)
{
	check_each(calls_of_handles, use_a_dead_handle, ":1 has been destroyed");
}

/* The memory of the record has gone back to the system before. */
static void use_a_handle_without_memory(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer = virtual_timer();
	static atomic_uint runs;
	size_t bytes = 0;

	REQUIRE(hwt_new_timeout(timer, count_task, &runs, 0, &timeout) == 0);
	REQUIRE(hwt_timer_advance(timer, HWT_S(1), NULL) == 0);
	REQUIRE(hwt_timer_trim(timer, &bytes) == 0);
	if (hwt_timeout_state(timeout) != HWT_RETIRED || bytes == 0)
		_exit(2);
	REQUIRE(hwt_timer_destroy(timer) == 0);
	(void)hwt_cancel(timeout);
}

TEST(a_handle_of_which_the_memory_is_gone_ends_the_process)
{
	check_aborts(use_a_handle_without_memory, "hwt: hwt_cancel: the timer 0x");
}

static const char *const calls_of_timers[] = {
	"hwt_timer_destroy",
	"hwt_timer_stop",
	"hwt_timer_start",
	"hwt_new_timeout",
	"hwt_new_timeout_at",
	"hwt_new_periodic",
	"hwt_new_timeout_ex",
	"hwt_pending_timeouts",
	"hwt_timer_config",
	"hwt_timer_user",
	"hwt_timer_grid",
	"hwt_timer_advance",
	"hwt_timer_advance_batch",
	"hwt_timer_next",
	"hwt_timer_fd",
	"hwt_timer_trim",
	"hwt_timer_each",
	"hwt_timer_stats",
	"hwt_timer_next_unprocessed",
	NULL,
};

static void use_a_dead_timer(void)
{
	hwt_timer *timer = driven_timer();
	hwt_config config = { .size = sizeof(config) };
	hwt_stats stats = { .size = sizeof(stats) };
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_unprocessed left;
	int64_t time_ns;
	size_t count;
	int fd;

	REQUIRE(hwt_timer_destroy(timer) == 0);
	switch (which_call) {
	case 0:
		(void)hwt_timer_destroy(timer);
		break;
	case 1:
		(void)hwt_timer_stop(timer, NULL);
		break;
	case 2:
		(void)hwt_timer_start(timer);
		break;
	case 3:
		(void)hwt_new_timeout(timer, run_task, NULL, 0, NULL);
		break;
	case 4:
		(void)hwt_new_timeout_at(timer, run_task, NULL, 0, NULL);
		break;
	case 5:
		(void)hwt_new_periodic(timer, run_task, NULL, 0, HWT_S(1), NULL);
		break;
	case 6:
		(void)hwt_new_timeout_ex(timer, &spec, NULL);
		break;
	case 7:
		(void)hwt_pending_timeouts(timer);
		break;
	case 8:
		(void)hwt_timer_config(timer, &config);
		break;
	case 9:
		(void)hwt_timer_user(timer);
		break;
	case 10:
		(void)hwt_timer_grid(timer, &time_ns);
		break;
	case 11:
		(void)hwt_timer_advance(timer, hwt_now(), NULL);
		break;
	case 12:
		(void)hwt_timer_advance_batch(timer, hwt_now(), NULL, 0, &count, NULL);
		break;
	case 13:
		(void)hwt_timer_next(timer, &time_ns);
		break;
	case 14:
		(void)hwt_timer_fd(timer, &fd);
		break;
	case 15:
		(void)hwt_timer_trim(timer, NULL);
		break;
	case 16:
		(void)hwt_timer_each(timer, NULL, NULL);
		break;
	case 17:
		(void)hwt_timer_stats(timer, &stats);
		break;
	default:
		(void)hwt_timer_next_unprocessed(timer, &left);
	}
}

/* A second destroy is such a call, too. */
TEST(a_destroyed_timer_ends_the_process)
{
	check_each(calls_of_timers, use_a_dead_timer, "\"hwt-worker\" has been destroyed");
}

static void use_good_handles(void)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	hwt_timer *timer;

	(void)handle_of_a_destroyed_timer();
	timer = driven_timer();
	CHECK_RC(hwt_new_timeout(timer, run_task, NULL, HWT_S(3600), &timeout), 0);
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_RC(hwt_cancel(timeout), ENOENT); /* a stale handle is harmless */
	CHECK_RC(hwt_cancel(HWT_TIMEOUT_NONE), ENOENT);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(stale_handles_of_a_living_timer_are_harmless)
{
	check_passes(use_good_handles);
}

TEST_MAIN()
