/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer in a GLib main loop, without a thread of its own: prints each of its arguments after as many milliseconds.
 *
 *     $ build/examples/glib_loop 300 100 200
 *     100
 *     200
 *     300
 *     $ build/examples/glib_loop --repeat=3 --thread 100       three times, a periodic timeout; set by another thread
 *     100
 *     100
 *     100
 *
 * The timer's descriptor is one GSource with one line of code in it; so it goes into any GMainContext, with a priority
 * of its own, beside the sources of GTK, GStreamer or GDBus.  Tasks run in the loop's thread.  Any other thread may
 * schedule: it need not go through g_main_context_invoke.
 */
#include <hwt.h>

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "glib_loop: %s: %s\n", what, strerror(rc));
	exit(1);
}

/*
 * The source: all there is to it.
 */

struct timer_source {
	GSource source;
	hwt_timer *timer;
};

static gboolean dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	(void)callback;
	(void)data;
	check("advance", hwt_timer_advance(((struct timer_source *)source)->timer, hwt_now(), NULL));
	return G_SOURCE_CONTINUE;
}

/* Without prepare and check GLib dispatches when the descriptor is readable. */
static GSourceFuncs timer_source_funcs = { .dispatch = dispatch };

static GSource *timer_source_new(hwt_timer *timer)
{
	GSource *source = g_source_new(&timer_source_funcs, sizeof(struct timer_source));
	int fd;

	((struct timer_source *)source)->timer = timer;
	check("timer", hwt_timer_fd(timer, &fd));
	g_source_add_unix_fd(source, fd, G_IO_IN);
	g_source_set_name(source, "hwt timer");
	return source;
}

/*
 * The program
 */

struct program {
	GMainLoop *loop;
	hwt_timer *timer;
	int repeat, lines_left; /* only tasks count it: no lock */
	char **arguments;
};

struct line {
	struct program *program;
	const char *text;
	int64_t delay_ns, due_ns;
	int runs_left;
};

static void print_line(hwt_timeout timeout, void *arg)
{
	struct line *line = arg;
	struct program *program = line->program;
	uint64_t runs = 1 + hwt_timeout_missed(timeout); /* a busy machine may merge some into one */

	if (hwt_now() < line->due_ns)
		check("early", EINVAL);
	line->due_ns += (int64_t)runs * line->delay_ns;
	for (; runs > 0 && line->runs_left > 0; runs--, line->runs_left--)
		puts(line->text);
	if (line->runs_left > 0)
		return;
	if (program->repeat > 1)
		check("cancel", hwt_cancel(timeout)); /* from its own task: no further run */
	g_free(line);
	if (--program->lines_left == 0)
		g_main_loop_quit(program->loop);
}

static gpointer schedule(gpointer data)
{
	struct program *program = data;
	int64_t start_ns = hwt_now(); /* one for all: so they come in order, however long this takes */

	for (char **argument = program->arguments; *argument; argument++) {
		struct line *line = g_new(struct line, 1);
		gint64 delay_ms = g_ascii_strtoll(*argument, NULL, 10);
		hwt_spec spec = { .size = sizeof(spec), .task = print_line, .arg = line, .flags = HWT_ABSOLUTE };

		delay_ms = CLAMP(delay_ms, 1, G_MAXINT);
		*line = (struct line){ program, *argument, HWT_MS(delay_ms), start_ns + HWT_MS(delay_ms),
				       program->repeat };
		spec.when_ns = line->due_ns;
		spec.period_ns = program->repeat > 1 ? line->delay_ns : 0;
		check("schedule", hwt_new_timeout_ex(program->timer, &spec, NULL));
	}
	return NULL;
}

static void read_options(int *argc, char ***argv, int *repeat, gboolean *thread)
{
	GOptionEntry entries[] = {
		{ "repeat", 'r', 0, G_OPTION_ARG_INT, repeat, "Print each so often", "N" },
		{ "thread", 't', 0, G_OPTION_ARG_NONE, thread, "Schedule from another thread", NULL },
		{ NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
	};
	GOptionContext *context = g_option_context_new("MILLISECONDS...");
	GError *error = NULL;

	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, argc, argv, &error) || *repeat < 1) {
		fprintf(stderr, "glib_loop: %s\n", error ? error->message : "--repeat must be 1 or more");
		exit(2);
	}
	g_option_context_free(context);
}

int main(int argc, char **argv)
{
	struct program program = { .repeat = 1 };
	hwt_config config = HWT_CONFIG_INIT;
	gboolean use_thread = FALSE;
	GThread *thread = NULL;
	GSource *source;

	read_options(&argc, &argv, &program.repeat, &use_thread);
	program.arguments = argv + 1;
	program.lines_left = argc - 1;
	config.flags = HWT_CALLER_DRIVEN;
	config.tick_duration_ns = HWT_MS(1);
	check("timer", hwt_timer_create(&program.timer, &config));
	program.loop = g_main_loop_new(NULL, FALSE);
	source = timer_source_new(program.timer);
	g_source_attach(source, NULL);
	if (use_thread)
		thread = g_thread_new("scheduler", schedule, &program);
	else
		schedule(&program);
	if (argc > 1)
		g_main_loop_run(program.loop);
	if (thread)
		g_thread_join(thread);
	g_source_destroy(source); /* before its descriptor is closed */
	g_source_unref(source);
	g_main_loop_unref(program.loop);
	return hwt_timer_destroy(program.timer) == 0 ? 0 : 1;
}
