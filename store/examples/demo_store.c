/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `make demo-store`: one store, a producer and three workers, thousands of timeouts in ten seconds.  In the middle one
 * worker is killed and another one is frozen, and then it tells what became of each timeout.  About 14 seconds.
 *
 *     make demo-store                            SQLite, a file in the folder for temporary files
 *     make demo-store URL=postgresql://...       a PostgreSQL server: tables hwt_demo_..., dropped at the end
 *     make demo-store URL=postgresql             a server of its own, if one is installed
 *
 * Processes  main      prepares, strikes the workers, shows how things go, judges (demo_store_verdict.h)
 *            producer  puts, cancels, moves (demo_store_roles.h)
 *            workers   run what is due
 *
 * Exit status: 0 all went right, 1 something did not (it says what), 2 wrong usage.
 */
#include <getopt.h>
#include <limits.h>
#include <sys/wait.h>

#include "demo_store_roles.h"
#include "demo_store_verdict.h"

#define KILL_US INT64_C(2000000)
#define STOP_US INT64_C(5500000)
#define CONTINUE_US INT64_C(9000000)   /* long after its lease was over */
#define PATIENCE_US INT64_C(300000000) /* only what hangs is waited for so long */
#define WATCHDOG_S 1800                /* beyond all patience */
#define KILLED 1                       /* worker B */
#define STOPPED 2

static volatile pid_t workers[WORKERS], producer; /* for the watchdog; 0: none */

static void end_all(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (workers[i] > 0)
			kill(workers[i], SIGKILL);
	if (producer > 0)
		kill(producer, SIGKILL);
}

/* The last resort: whatever hangs, this does not. */
static void watchdog(int number)
{
	static const char late[] = "\ndemo_store: took far too long, giving up\n";
	ssize_t n = number == SIGALRM ? write(STDERR_FILENO, late, sizeof(late) - 1) : 0;

	(void)n;
	end_all();
	_exit(1);
}

static pid_t start_role(struct role *role, int (*run)(struct role *role))
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	role_begin(parent);
	_exit(run(role));
}

static void show_progress(struct board *board)
{
	unsigned runs = 0, shards[WORKERS];

	if (!style.terminal)
		return;
	for (int i = 0; i < WORKERS; i++) {
		runs += atomic_load(&board->worker[i].runs);
		shards[i] = workers[i] > 0 ? atomic_load(&board->worker[i].shards) : 0;
	}
	printf("\r  %4.1f s  %5u accepted, %5u ran, %4u cancelled; shards: A %u, B %u, C %u\033[K",
	       (double)(wall_us() - board->start_us) / 1e6, atomic_load(&board->accepted), runs,
	       atomic_load(&board->cancelled), shards[0], shards[1], shards[2]);
	fflush(stdout);
}

static void say(struct board *board, const char *what)
{
	printf("%s  %4.1f s  %s%s\n", style.terminal ? "\r" : "", (double)(wall_us() - board->start_us) / 1e6, what,
	       style.terminal ? "\033[K" : "");
	fflush(stdout);
}

/* Notices a child that ended by itself. */
static void look_after(struct board *board)
{
	int status;

	for (int i = 0; i < WORKERS; i++)
		if (workers[i] > 0 && waitpid(workers[i], &status, WNOHANG) == workers[i]) {
			workers[i] = 0;
			wrong(board, "worker %c ended by itself, with status 0x%x", 'A' + i, (unsigned)status);
		}
	if (producer > 0 && waitpid(producer, &status, WNOHANG) == producer) {
		producer = 0;
		if (status != 0)
			wrong(board, "the producer ended with status 0x%x", (unsigned)status);
	}
}

static void wait_until(struct board *board, int64_t us)
{
	while (wall_us() < board->start_us + us) {
		sleep_us(50000);
		look_after(board);
		show_progress(board);
	}
}

/* Until each of the workers holds shards; without, there is nothing to take over. */
static bool wait_for_workers(struct board *board)
{
	for (int64_t waited_us = 0; waited_us < PATIENCE_US; waited_us += 20000) {
		bool all = true;

		for (int i = 0; i < WORKERS; i++)
			all = all && atomic_load(&board->worker[i].shards) > 0;
		if (all)
			return true;
		look_after(board);
		if (atomic_load(&board->wrongs) > 0)
			return false;
		sleep_us(20000);
	}
	wrong(board, "a worker has got no shards in %d s", (int)(PATIENCE_US / 1000000));
	return false;
}

/* At a moment at which the worker does not write; see effects_nobody_writes. */
static bool freeze(struct board *board, struct effects *effects, struct verdict *verdict)
{
	int64_t give_up_us = wall_us() + PATIENCE_US;

	for (int64_t pause_us = 1000; workers[STOPPED] > 0; pause_us += pause_us < 200000 ? 700 : 0) {
		verdict->stopped.at_us = wall_us() + board->offset_us;
		kill(workers[STOPPED], SIGSTOP);
		if (effects_nobody_writes(effects))
			break;
		kill(workers[STOPPED], SIGCONT);
		if (wall_us() > give_up_us) {
			wrong(board, "worker C writes whenever it is to be frozen");
			return false;
		}
		sleep_us(pause_us);
	}
	say(board, "worker C is frozen (SIGSTOP)");
	return true;
}

static void strike(struct board *board, struct effects *effects, struct verdict *verdict)
{
	wait_until(board, KILL_US);
	verdict->killed.at_us = wall_us() + board->offset_us;
	if (workers[KILLED] > 0) {
		kill(workers[KILLED], SIGKILL);
		waitpid(workers[KILLED], NULL, 0);
	}
	workers[KILLED] = 0;
	say(board, "worker B is killed (SIGKILL)");
	wait_until(board, STOP_US);
	if (!freeze(board, effects, verdict))
		return;
	wait_until(board, verdict->stopped.at_us - board->offset_us - board->start_us + CONTINUE_US - STOP_US);
	verdict->stopped.until_us = wall_us() + board->offset_us;
	if (workers[STOPPED] > 0)
		kill(workers[STOPPED], SIGCONT);
	say(board, "worker C goes on, long after its lease (SIGCONT)");
	wait_until(board, SPAN_US);
}

/*
 * The end
 */

static bool one_is_left(void *ctx, const hwt_store_info *info)
{
	(void)info;
	*(bool *)ctx = true;
	return false;
}

static void wait_for_the_last(struct role *role)
{
	const unsigned states = 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING;
	struct board *board = role->board;
	bool left = true;

	while (left && wall_us() < board->start_us + SPAN_US + PATIENCE_US) {
		left = producer > 0;
		for (int mode = 0; mode < MODES && !left; mode++) {
			int rc = hwt_store_each(role->store, kind_names[mode], states, one_is_left, &left);

			if (rc != 0) {
				wrong(board, "cannot list %s: %s", kind_names[mode], hwt_store_error());
				return;
			}
		}
		if (left)
			sleep_us(50000);
		look_after(board);
		show_progress(board);
	}
	if (left)
		wrong(board, "timeouts are left %d s after their time", (int)(PATIENCE_US / 1000000));
}

static void stop_workers(struct board *board)
{
	for (int i = 0; i < WORKERS; i++)
		if (workers[i] > 0)
			kill(workers[i], SIGTERM);
	for (int64_t waited_us = 0; waited_us < PATIENCE_US && (workers[0] > 0 || workers[STOPPED] > 0);
	     waited_us += 10000) {
		sleep_us(10000);
		for (int i = 0; i < WORKERS; i++)
			if (workers[i] > 0 && waitpid(workers[i], NULL, WNOHANG) == workers[i])
				workers[i] = 0;
	}
	for (int i = 0; i < WORKERS; i++)
		if (i != KILLED && !atomic_load(&board->worker[i].ended_well))
			wrong(board, "worker %c did not stop well", 'A' + i);
	if (style.terminal)
		fputs("\r\033[K", stdout);
}

struct failures {
	struct verdict *verdict;
	struct board *board;
	bool *failed;
};

static bool note_failure(void *ctx, const hwt_store_info *info)
{
	struct failures *failures = ctx;

	for (unsigned i = 0; i < failures->board->items; i++)
		if (atomic_load(&failures->board->item[i].id) == info->id) {
			verdict_failed(failures->verdict, failures->board->item[i].mode, failures->failed, i);
			return true;
		}
	wrong(failures->board, "timeout %" PRId64 " failed, and was never accepted", info->id);
	return true;
}

static void judge(struct role *role, struct effects *effects, struct verdict *verdict)
{
	static struct trace traces[ITEMS_MAX];
	static unsigned counts[ITEMS_MAX];
	static bool failed[ITEMS_MAX];
	struct board *board = role->board;
	struct failures failures = { verdict, board, failed };

	for (int mode = 0; mode < MODES; mode++)
		if (hwt_store_each(role->store, kind_names[mode], 1u << HWT_STORE_FAILED, note_failure, &failures) != 0)
			wrong(board, "cannot list what failed: %s", hwt_store_error());
	if (!effects_count(effects, counts))
		wrong(board, "cannot read the table of effects");
	gather(verdict, board, traces, LEASE_NS / 1000);
	for (unsigned i = 0; i < board->items; i++)
		judge_item(verdict, board, i, &traces[i], counts[i], failed[i]);
	if (atomic_load(&board->accepted) != verdict->accepted[0] + verdict->accepted[1] + verdict->accepted[2] ||
	    atomic_load(&board->accepted) == 0)
		wrong(board, "%u were accepted by the producer's count", atomic_load(&board->accepted));
}

static void run(struct role *role, struct effects *effects, struct verdict *verdict)
{
	struct board *board = role->board;
	struct role roles[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++) {
		roles[i] = (struct role){ .board = board, .url = role->url, .number = i };
		workers[i] = start_role(&roles[i], worker_run);
	}
	if (!wait_for_workers(board))
		return;
	board->start_us = wall_us();
	producer = start_role(role, producer_run);
	if (!effects_open(effects, role->url) || !role_open(role, "demo")) {
		wrong(board, "cannot open %s", role->url);
		return;
	}
	strike(board, effects, verdict);
	wait_for_the_last(role);
	stop_workers(board);
	judge(role, effects, verdict);
	if (hwt_store_close(role->store) != 0)
		wrong(board, "cannot close the store");
	print_verdict(verdict, board, LEASE_NS / 1000);
}

/*
 * Preparing
 */

static void usage(FILE *out)
{
	fputs("usage: demo_store [options]\n"
	      "Three processes share thousands of durable timeouts; one is killed, one is frozen.  Tells whether all "
	      "ran.\n"
	      "  -u URL   of the store; default: sqlite:, a new file.  PostgreSQL: tables hwt_demo_... are dropped\n"
	      "  -n N     timeouts; default 5000\n"
	      "  -h       this\n",
	      out);
}

static unsigned count_from(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < 100 || value > ITEMS_MAX) {
		fprintf(stderr, "demo_store: -n takes a number from 100 to %d, not '%s'\n", ITEMS_MAX, text);
		exit(2);
	}
	return (unsigned)value;
}

static bool prepare(const char *url, struct effects *effects, struct board *board)
{
	if (!effects_open(effects, url))
		return false;
	if (!effects_drop_all(effects) || !effects_create(effects)) {
		fprintf(stderr, "demo_store: cannot make tables at %s\n", url);
		return false;
	}
	effects_look_at_clock(effects, board);
	effects_close(effects); /* no connection crosses a fork */
	return true;
}

/* A file of our own, in a folder of our own. */
static void make_url(char *folder, char *url, size_t size)
{
	const char *temporary = getenv("TMPDIR");

	snprintf(folder, PATH_MAX, "%s/hwt-demo-XXXXXX", temporary != NULL ? temporary : "/tmp");
	if (mkdtemp(folder) == NULL) {
		fprintf(stderr, "demo_store: %s: %s\n", folder, strerror(errno));
		exit(1);
	}
	snprintf(url, size, "sqlite:%s/demo.db", folder);
}

static void remove_folder(const char *folder)
{
	static const char *const names[] = { "demo.db", "demo.db-wal", "demo.db-shm" };
	char path[PATH_MAX + 16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}

int main(int argc, char **argv)
{
	static char folder[PATH_MAX], url[PATH_MAX + 32];
	static struct verdict verdict = { .killed.worker = KILLED, .stopped.worker = STOPPED };
	struct role role = { .board = board_make() };
	struct effects effects = { .unused = 0 };
	int c, status = 1;

	if (role.board == NULL) {
		fprintf(stderr, "demo_store: no memory\n");
		return 1;
	}
	role.board->items = 5000;
	while ((c = getopt(argc, argv, "u:n:h")) != -1) {
		switch (c) {
		case 'u':
			role.url = optarg;
			break;
		case 'n':
			role.board->items = count_from(optarg);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		usage(stderr);
		return 2;
	}
	style_choose();
	signal(SIGALRM, watchdog);
	signal(SIGINT, watchdog);
	signal(SIGTERM, watchdog);
	alarm(WATCHDOG_S);
	if (role.url == NULL) {
		make_url(folder, url, sizeof(url));
		role.url = url;
	}
	printf("%sA store%s on %s: 3 workers, a producer, %u timeouts in 10 s; lease %g s\n\n", style.bold, style.plain,
	       is_sqlite(role.url) ? "SQLite" : "PostgreSQL", role.board->items, (double)LEASE_NS / 1e9);
	if (prepare(role.url, &effects, role.board)) {
		run(&role, &effects, &verdict);
		status = print_last_word(role.board);
		end_all();
		while (wait(NULL) > 0)
			;
		effects_close(&effects);
		if (effects_open(&effects, role.url))
			effects_drop_all(&effects);
	}
	effects_close(&effects);
	if (folder[0] != '\0')
		remove_folder(folder);
	return status;
}
