/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `make demo`: idle_server under some thousands of real connections, and what became of each of them.  About 9 seconds.
 *
 * Threads   main      starts the server, shows how things go, stops the server, sums up
 *           teams     the clients (demo_clients.h), which also judge what happens to them (demo_crowd.h)
 * Phases    BUSY      all come within 1.5 s, and play their roles; at least 8 s
 *           QUIET     the talkers fall silent, too, until every reply has come; some ms
 *           STOPPING  the server is stopped while the talkers are connected: their timeouts must all be given back
 *
 * Exit status: 0 all went right, 1 something did not (it says what), 2 wrong usage.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <limits.h>
#include <sys/resource.h>

#include "demo_clients.h"
#include "demo_server.h"
#include "demo_summary.h"

#define TEAMS 2
#define DESCRIPTORS_KEPT 40 /* of each process, for what is not a connection */
#define CLIENTS_MIN 10
#define CLIENTS_MAX 20000 /* of the 28000 ports that a client address has by default */
#define WATCHDOG_S 300

struct options {
	unsigned clients;
	int tick_ms;
	const char *server;
};

static struct child server; /* global for the watchdog */

/*
 * Running
 */

/* The last resort: whatever hangs, this does not. */
static void watchdog(int signal)
{
	static const char text[] = "\ndemo: took far too long, giving up\n";
	ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)signal;
	(void)n;
	if (server.pid > 0)
		kill(server.pid, SIGKILL);
	_exit(1);
}

static void show_progress(struct crowd *crowd)
{
	const unsigned *total = crowd->total;

	if (!style.terminal)
		return;
	printf("\r  %4.1f s  %5u open, closed %u/%u silent, %u/%u dribblers; %u replies\033[K",
	       (double)(clock_ns() - crowd->start_ns) / 1e9, atomic_load(&crowd->open),
	       atomic_load(&crowd->ended[SILENT]), total[SILENT], atomic_load(&crowd->ended[DRIBBLER]), total[DRIBBLER],
	       atomic_load(&crowd->replies));
	fflush(stdout);
}

/* Until all clients are settled, and from_ns at least; but no longer than GRACE_NS after it, nor without a server. */
static void wait_for(struct crowd *crowd, struct team *teams, enum phase phase, int64_t from_ns)
{
	for (unsigned turn = 0;; turn++) {
		int64_t now_ns = clock_ns();
		bool settled = true;

		for (int i = 0; i < TEAMS; i++)
			settled = settled && atomic_load(&teams[i].unsettled[phase]) == 0;
		if ((settled && now_ns >= from_ns) || now_ns >= from_ns + GRACE_NS || child_has_ended(&server))
			return;
		if (turn % 10 == 0)
			show_progress(crowd);
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
}

static bool run(struct crowd *crowd, struct team *teams)
{
	bool stopped;

	for (int i = 0; i < TEAMS; i++) {
		int rc = pthread_create(&teams[i].thread, NULL, team_run, &teams[i]);

		if (rc != 0) {
			fprintf(stderr, "demo: cannot make a thread: %s\n", strerror(rc));
			kill(server.pid, SIGKILL);
			exit(1);
		}
	}
	wait_for(crowd, teams, BUSY, crowd->start_ns + QUIET_NS);
	if (child_has_ended(&server))
		wrong(crowd, NULL, "the server ended by itself, with status 0x%x", (unsigned)server.status);
	atomic_store(&crowd->phase, QUIET);
	wait_for(crowd, teams, QUIET, clock_ns());
	atomic_store(&crowd->phase, STOPPING);
	stopped = child_stop(&server);
	for (int i = 0; i < TEAMS; i++)
		pthread_join(teams[i].thread, NULL);
	if (style.terminal)
		fputs("\r\033[K", stdout);
	return stopped;
}

/*
 * Preparing
 */

/* Each process needs a descriptor a connection; both have the same limit. */
static unsigned clients_allowed(unsigned wanted)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return wanted;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted + DESCRIPTORS_KEPT)
		return wanted;
	if (files.rlim_cur < CLIENTS_MIN + DESCRIPTORS_KEPT) {
		fprintf(stderr, "demo: needs %d file descriptors (ulimit -n)\n", CLIENTS_MIN + DESCRIPTORS_KEPT);
		exit(1);
	}
	return (unsigned)files.rlim_cur - DESCRIPTORS_KEPT;
}

/* Of ten clients four talk, three fall silent, two leave and one dribbles. */
static void crowd_gather(struct crowd *crowd, struct team *teams, struct client *clients, unsigned count)
{
	static const enum role roles[] = { TALKER,   SILENT, LEAVER, TALKER, SILENT,
					   DRIBBLER, TALKER, LEAVER, SILENT, TALKER };
	static const int64_t turns_ns[ROLES] = { INT64_MAX / 2, SILENT_NS, DRIBBLE_NS, LEAVE_NS };

	crowd->server = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)server.port) };
	crowd->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	crowd->start_ns = clock_ns();
	for (unsigned i = 0; i < TEAMS; i++) {
		teams[i].crowd = crowd;
		teams[i].clients = clients + (size_t)count * i / TEAMS;
		teams[i].count = (unsigned)(clients + (size_t)count * (i + 1) / TEAMS - teams[i].clients);
		teams[i].random = (uint64_t)crowd->start_ns * 2 + 2 * i + 1;
		teams[i].epoll = epoll_create1(EPOLL_CLOEXEC);
		for (int phase = BUSY; phase <= STOPPING; phase++)
			atomic_init(&teams[i].unsettled[phase], UINT_MAX);
		for (unsigned k = 0; k < teams[i].count; k++) {
			struct client *c = &teams[i].clients[k];

			c->team = &teams[i];
			c->id = (unsigned)(c - clients);
			c->role = roles[c->id % 10];
			c->next_ns = crowd->start_ns + ARRIVE_NS * k / teams[i].count;
			c->turn_ns = random_between(c->team, c->next_ns, crowd->start_ns + turns_ns[c->role]);
			crowd->total[c->role]++;
		}
	}
}

static void teams_sum(struct team *all, const struct team *teams)
{
	for (int i = 0; i < TEAMS; i++) {
		for (int role = 0; role < ROLES; role++) {
			all->held_up[role] += teams[i].held_up[role];
			all->right[role] += teams[i].right[role];
			histogram_merge(&all->late[role], &teams[i].late[role]);
		}
		for (int farewell = 0; farewell < FAREWELLS; farewell++)
			all->farewells[farewell] += teams[i].farewells[farewell];
		for (unsigned k = 0; k < teams[i].count; k++) {
			all->slow += client_is_slow(&teams[i].clients[k]);
			all->sent += teams[i].clients[k].sent;
			all->received += teams[i].clients[k].received;
		}
		close(teams[i].epoll);
	}
}

static bool server_start(const struct options *options)
{
	char path[PATH_MAX], port[] = "-p0", idle[16], request[16], tick[16], report[16];
	char *argv[] = { path, port, idle, request, tick, report, NULL };
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[length > 0 ? length : 0] = '\0';
	slash = strrchr(path, '/');
	if (options->server != NULL)
		snprintf(path, sizeof(path), "%s", options->server);
	else if (slash != NULL)
		snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "idle_server");
	snprintf(idle, sizeof(idle), "-i%d", (int)(IDLE_NS / MS));
	snprintf(request, sizeof(request), "-r%d", (int)(REQUEST_NS / MS));
	snprintf(tick, sizeof(tick), "-k%d", options->tick_ms);
	snprintf(report, sizeof(report), "-m%d", REPORT_FD);
	return child_start(&server, path, argv);
}

static void usage(FILE *out)
{
	fputs("usage: demo [options]\n"
	      "Starts idle_server, sends it thousands of clients, and tells whether its timeouts did their work.\n"
	      "  -c N     clients; default 4000, fewer where the limit of file descriptors is low\n"
	      "  -k MS    tick of the server's timer; default 10\n"
	      "  -s PATH  of the server; default: idle_server next to this program\n"
	      "  -h       this\n",
	      out);
}

static long number(char option, const char *text, long min, long max)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < min || value > max) {
		fprintf(stderr, "demo: -%c takes a number from %ld to %ld, not '%s'\n", option, min, max, text);
		exit(2);
	}
	return value;
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .clients = 4000, .tick_ms = 10 };
	int c;

	while ((c = getopt(argc, argv, "c:k:s:h")) != -1) {
		switch (c) {
		case 'c': options.clients = (unsigned)number('c', optarg, CLIENTS_MIN, CLIENTS_MAX); break;
		case 'k': options.tick_ms = (int)number('k', optarg, 1, 500); break;
		case 's': options.server = optarg; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "demo: unexpected '%s'\n", argv[optind]);
		usage(stderr);
		exit(2);
	}
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	unsigned count = clients_allowed(options.clients);
	struct client *clients = calloc(count, sizeof(*clients));
	static struct team teams[TEAMS], all;
	static struct crowd crowd;
	int status;

	style_choose();
	signal(SIGALRM, watchdog);
	alarm(WATCHDOG_S);
	if (clients == NULL || !server_start(&options)) {
		fprintf(stderr, "demo: cannot start the server\n");
		if (server.pid > 0)
			child_stop(&server);
		return 1;
	}
	printf("%sidle_server%s on 127.0.0.1:%d, %u clients; idle timeout %g s, request timeout %g s, tick %d ms\n",
	       style.bold, style.plain, server.port, count, (double)IDLE_NS / 1e9, (double)REQUEST_NS / 1e9,
	       options.tick_ms);
	if (count < options.clients)
		printf("(%u clients were asked for; the limit of file descriptors allows no more)\n", options.clients);
	putchar('\n');
	fflush(stdout);
	crowd_gather(&crowd, teams, clients, count);
	if (!run(&crowd, teams))
		wrong(&crowd, NULL, "the server did not end as it should (status 0x%x)", (unsigned)server.status);
	teams_sum(&all, teams);
	print_summary(&crowd, &server, &all);
	status = print_verdict(&crowd);
	free(clients);
	return status;
}
