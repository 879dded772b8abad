/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulled runs in a loop of libuv: a uv_poll_t watches the descriptor.  A run ends when what it has begun in the loop is
 * over, here a timer that stands for a request.  Three are out at once.
 *
 *     $ build/examples/uv_loop sqlite:requests.db 300 100 200 50
 *     100 ms
 *     50 ms                        begun when a place was free
 *     200 ms
 *     300 ms
 *
 * The program ends when no request is left.  What has not been answered when it is killed is asked again by the next
 * start.
 */
#include <hwt_store.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define AT_ONCE 3

struct program {
	hwt_store *store;
	uv_poll_t due;
	uv_timer_t look;
	unsigned out;
};

struct request {
	uv_timer_t timer;
	hwt_store_run *run;
	struct program *program;
};

static void free_request(uv_handle_t *timer)
{
	free(timer->data);
}

static void on_answer(uv_timer_t *timer)
{
	struct request *request = timer->data;

	printf("%s ms\n", (const char *)request->run->data);
	request->program->out--;
	hwt_store_end(request->run, 0);
	uv_close((uv_handle_t *)timer, free_request);
}

static void begin(struct program *program, hwt_store_run *run)
{
	struct request *request = calloc(1, sizeof(*request));

	if (request == NULL || program->out == AT_ONCE) {
		free(request);
		hwt_store_end(run, ENOMEM); /* tried again later */
		return;
	}
	program->out++;
	request->run = run;
	request->program = program;
	request->timer.data = request;
	uv_timer_init(program->due.loop, &request->timer);
	uv_timer_start(&request->timer, on_answer, strtoul(run->data, NULL, 10), 0);
}

/* hwt_store_fd is readable.  While three are out it is not, so the loop does not spin. */
static void on_due(uv_poll_t *due, int status, int events)
{
	struct program *program = due->data;
	hwt_store_run *run;

	(void)events;
	while (status == 0 && hwt_store_next(program->store, &run) == 0)
		begin(program, run);
}

static bool see(void *ctx, const hwt_store_info *info)
{
	(void)info;
	*(bool *)ctx = true;
	return false;
}

static void on_look(uv_timer_t *look)
{
	struct program *program = look->data;
	bool any = false;

	if (hwt_store_each(program->store, "request", 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING, see, &any) !=
		0 ||
	    any)
		return;
	uv_close((uv_handle_t *)&program->due, NULL);
	uv_close((uv_handle_t *)look, NULL);
}

static int put(hwt_store *store, int n, char **ms)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	int rc = 0;

	spec.kind = "request";
	for (int i = 0; i < n && rc == 0; i++) {
		spec.data = ms[i];
		spec.len = strlen(ms[i]) + 1;
		rc = hwt_store_put(store, &spec, NULL);
	}
	return rc;
}

static int run_loop(struct program *program)
{
	uv_loop_t *loop = uv_default_loop();
	int fd;

	if (hwt_store_fd(program->store, &fd) != 0 || uv_poll_init(loop, &program->due, fd) != 0 ||
	    uv_timer_init(loop, &program->look) != 0)
		return 1;
	program->due.data = program->look.data = program;
	uv_poll_start(&program->due, UV_READABLE, on_due);
	uv_timer_start(&program->look, on_look, 100, 100);
	uv_run(loop, UV_RUN_DEFAULT);
	return uv_loop_close(loop);
}

int main(int argc, char **argv)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	struct program program = { .out = 0 };
	char error[256];
	int rc = 1;

	if (hwt_store_open(&program.store, argc > 1 ? argv[1] : "sqlite:requests.db", NULL, error, sizeof(error)) !=
	    0) {
		fprintf(stderr, "uv_loop: %s\n", error);
		return 1;
	}
	kind.name = "request";
	kind.flags = HWT_STORE_PULLED;
	kind.concurrency = AT_ONCE;
	if (hwt_store_register(program.store, &kind) != 0 || put(program.store, argc - 2, argv + 2) != 0 ||
	    hwt_store_start(program.store) != 0)
		fprintf(stderr, "uv_loop: %s\n", hwt_store_error());
	else
		rc = run_loop(&program);
	hwt_store_close(program.store);
	return rc;
}
