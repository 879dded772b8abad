/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulled runs in a loop of the program's own, by poll(2): it reads lines, and what is due runs on the same thread.
 *
 *     $ printf '300 third\n100 first\n200 second\n' | build/examples/poll_loop sqlite:lines.db
 *     first
 *     second
 *     third
 *
 * A line is a delay in milliseconds and a text.  The program ends after its input, once no line is left; what it has not
 * printed when it is killed, the next start does.
 */
#include <hwt_store.h>

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "poll_loop: %s: %s\n", what, hwt_store_error());
	return 1;
}

static int put_line(hwt_store *store, char *line)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	char *text;

	line[strcspn(line, "\n")] = '\0';
	spec.kind = "line";
	spec.delay_ns = HWT_MS(strtol(line, &text, 10));
	spec.data = text + strspn(text, " ");
	spec.len = strlen(spec.data);
	return hwt_store_put(store, &spec, NULL);
}

/* Reads what is there: whole lines. */
static int read_lines(hwt_store *store, bool *ended)
{
	static char text[65536];
	static size_t len;
	ssize_t n = read(STDIN_FILENO, text + len, sizeof(text) - 1 - len);
	char *end;

	*ended = n <= 0;
	len += n > 0 ? (size_t)n : 0;
	while ((end = memchr(text, '\n', len)) != NULL) {
		size_t used = (size_t)(end - text) + 1;

		if (put_line(store, text) != 0)
			return fail("put");
		len -= used;
		memmove(text, text + used, len);
	}
	return 0;
}

static int run_what_is_due(hwt_store *store)
{
	hwt_store_run *run;
	int rc;

	while ((rc = hwt_store_next(store, &run)) == 0) {
		printf("%.*s\n", (int)run->len, run->len > 0 ? (const char *)run->data : "");
		fflush(stdout);
		rc = hwt_store_end(run, 0);
		if (rc != 0 && rc != ESTALE) /* another process has it now */
			return fail("end");
	}
	return rc == EAGAIN ? 0 : fail("next");
}

static bool see(void *ctx, const hwt_store_info *info)
{
	(void)info;
	*(bool *)ctx = true;
	return false;
}

static bool any_left(hwt_store *store)
{
	bool any = false;

	return hwt_store_each(store, "line", 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING, see, &any) != 0 || any;
}

static int loop(hwt_store *store)
{
	struct pollfd fds[2] = { { .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	bool ended = false;

	if (hwt_store_fd(store, &fds[0].fd) != 0)
		return fail("fd");
	while (!ended || any_left(store)) {
		if (poll(fds, 2, ended ? 100 : -1) < 0 && errno != EINTR)
			return 1;
		if (fds[1].revents != 0 && read_lines(store, &ended) != 0)
			return 1;
		if (ended)
			fds[1].fd = -1;
		if (fds[0].revents != 0 && run_what_is_due(store) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	hwt_store *store;
	char error[256];
	int rc;

	if (hwt_store_open(&store, argc > 1 ? argv[1] : "sqlite:lines.db", NULL, error, sizeof(error)) != 0) {
		fprintf(stderr, "poll_loop: %s\n", error);
		return 1;
	}
	kind.name = "line";
	kind.flags = HWT_STORE_PULLED;
	rc = hwt_store_register(store, &kind) != 0 || hwt_store_start(store) != 0 ? fail("start") : loop(store);
	hwt_store_close(store);
	return rc;
}
