/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A TCP server that answers lines and closes silent peers: what a hashed wheel timer is made for.  Every connection has
 * a timeout pending at all times.  Every message moves it with hwt_reschedule_at, from the thread of the connection.
 * Few ever fire.
 *
 *     $ build/examples/idle_server -p 7000 -i 5000 &
 *     $ nc 127.0.0.1 7000
 *     PING                              -->  PONG
 *     hello                             -->  hello
 *     (nothing for 5 seconds)           -->  idle timeout, closing
 *     (half a line, and no end of it)   -->  request timeout, closing
 *
 * Threads   main       accepts, deals new connections out to the loops, waits for SIGINT and SIGTERM
 *           loops      epoll; each owns its connections (connection.h: the rules, read them before you copy)
 *           worker     the timer's own; runs limit_passed, which posts a letter to the loop (mailbox.h)
 *
 * Stopping  follows the current downwards: main stops accepting; no loop reads; the timer is stopped and gives back
 *           what was pending; main drops the letters that are left, closes the connections and frees everything.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "connection.h"

#define EVENTS_AT_ONCE 256
#define ACCEPTS_AT_ONCE 256
#define MAX_LOOPS 256
#define ACCEPT_PAUSE_MS 100

struct options {
	int port, loops, idle_ms, request_ms, tick_ms, report_fd;
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "idle_server: %s: %s\n", what, strerror(error));
	exit(1);
}

/*
 * Loops
 */

static void *loop_run(void *arg)
{
	struct loop *loop = arg;
	struct epoll_event events[EVENTS_AT_ONCE];

	for (bool stop = false; !stop;) {
		int n = epoll_wait(loop->epoll, events, EVENTS_AT_ONCE, -1);

		for (int i = 0; i < n; i++)
			if (events[i].data.ptr != NULL) /* NULL: the mailbox */
				connection_event(events[i].data.ptr, events[i].events);
		/*
		 * Letters come second.  A message in this round puts its timeout off, and a connection that a letter
		 * ends is in no later event of the round.  stop is read first: what main posted before is delivered.
		 */
		stop = atomic_load(&loop->server->stop);
		for (struct letter *letter = mailbox_take(&loop->mailbox), *next; letter != NULL; letter = next) {
			next = letter->next; /* letter may be freed, or under way again */
			letter->deliver(letter->about);
		}
	}
	return NULL;
}

static void loop_start(struct loop *loop, struct server *server)
{
	int rc;

	loop->server = server;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0 || !mailbox_open(&loop->mailbox) ||
	    epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->mailbox.fd, &(struct epoll_event){ .events = EPOLLIN }) != 0)
		fail("cannot make an I/O thread", errno);
	rc = pthread_create(&loop->thread, NULL, loop_run, loop);
	if (rc != 0)
		fail("cannot make an I/O thread", rc);
}

/* Once the loops and the timer have stopped, no other thread runs: everything is ours. */
static void server_stop(struct server *server, struct loop *loops, int count)
{
	hwt_unprocessed pending;

	atomic_store(&server->stop, true);
	for (int i = 0; i < count; i++)
		mailbox_wake(&loops[i].mailbox);
	for (int i = 0; i < count; i++)
		pthread_join(loops[i].thread, NULL);

	hwt_timer_stop(server->timer, NULL);
	while (hwt_timer_next_unprocessed(server->timer, &pending)) {
		struct limit *limit = pending.arg;

		limit->state = OFF;
		limit->connection->loop->counters.returned++;
		limit->connection->references--;
		connection_let_go(limit->connection);
	}
	for (int i = 0; i < count; i++) {
		struct letter *next;

		/* The loop has delivered all arrivals, so these are of tasks that ran since. */
		for (struct letter *letter = mailbox_take(&loops[i].mailbox); letter != NULL; letter = next) {
			struct limit *limit = letter->about;

			next = letter->next;
			histogram_add(&loops[i].lateness, limit->ran_ns - limit->deadline_ns);
			limit->state = OFF;
			limit->connection->references--;
			connection_let_go(limit->connection);
		}
		for (struct connection *c; (c = loops[i].first) != NULL; connection_let_go(c))
			connection_close(c, BY_STOP);
		close(loops[i].mailbox.fd);
		close(loops[i].epoll);
	}
	hwt_timer_destroy(server->timer);
}

/*
 * Accepting
 */

static int listen_on_loopback(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
	    bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		fail("cannot listen", errno);
	printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
	fflush(stdout); /* the parent process may wait for the port */
	return fd;
}

/*
 * Accepts what waits.  Returns how long to leave the listener alone: when descriptors or memory are out, the connection
 * stays in the queue, poll would report it again at once, and we would spin.
 */
static int accept_some(int listener, struct loop *loops, int count, uint64_t *accepted)
{
	static bool complained;

	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0 && connection_new(&loops[*accepted % (uint64_t)count], fd)) {
			++*accepted;
			continue;
		}
		if (fd >= 0)
			close(fd);
		else if (errno == EAGAIN)
			return 0;
		else if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
			continue; /* that one went away by itself */
		if (!complained)
			fprintf(stderr, "idle_server: cannot accept, trying again: %s\n", strerror(errno));
		complained = true;
		return ACCEPT_PAUSE_MS;
	}
	return 0;
}

/* Until a signal comes. */
static uint64_t accept_all(int signals, int listener, struct loop *loops, int count)
{
	struct pollfd fds[] = { { signals, POLLIN, 0 }, { listener, POLLIN, 0 } };
	uint64_t accepted = 0;
	int pause_ms = 0;

	for (;;) {
		int n = poll(fds, pause_ms != 0 ? 1 : 2, pause_ms != 0 ? pause_ms : -1);

		if (n < 0 && errno != EINTR)
			fail("poll", errno);
		if (n > 0 && fds[0].revents != 0)
			return accepted;
		pause_ms = accept_some(listener, loops, count, &accepted);
	}
}

/*
 * The end, and the beginning
 */

static void counters_add(struct counters *sum, const struct counters *one)
{
	for (int i = 0; i < REASONS; i++)
		sum->closed[i] += one->closed[i];
	sum->lines += one->lines;
	sum->set += one->set;
	sum->cancelled += one->cancelled;
	sum->returned += one->returned;
	sum->moved += one->moved;
	sum->crossed += one->crossed;
}

static void report(const struct histogram *lateness, const struct counters *sum, uint64_t accepted, int64_t elapsed_ns)
{
	double cancelled = sum->set != 0 ? 100.0 * (double)sum->cancelled / (double)sum->set : 0;

	printf("%" PRIu64 " connections, %" PRIu64 " lines answered in %.1f s\n", accepted, sum->lines,
	       (double)elapsed_ns / 1e9);
	printf("  closed by the peer           %10" PRIu64 "\n", sum->closed[BY_PEER]);
	printf("  closed by idle timeout       %10" PRIu64 "\n", sum->closed[BY_IDLE_TIMEOUT]);
	printf("  closed by request timeout    %10" PRIu64 "\n", sum->closed[BY_REQUEST_TIMEOUT]);
	printf("  closed for too long a line   %10" PRIu64 "\n", sum->closed[BY_LONG_LINE]);
	printf("  closed without memory        %10" PRIu64 "\n", sum->closed[BY_LACK_OF_MEMORY]);
	printf("  open when stopped            %10" PRIu64 "\n", sum->closed[BY_STOP]);
	printf("timeouts set                   %10" PRIu64 "\n", sum->set);
	printf("  cancelled                    %10" PRIu64 "  %.1f %%\n", sum->cancelled, cancelled);
	printf("  fired                        %10" PRIu64 "\n", lateness->count);
	printf("  returned when stopped        %10" PRIu64 "\n", sum->returned);
	printf("moved by a message             %10" PRIu64 "\n", sum->moved);
	printf("a moment too late for that     %10" PRIu64 "  (these fired)\n", sum->crossed);
	printf("lateness of those that fired   p50 %.2f ms, p99 %.2f ms, max %.2f ms\n",
	       (double)histogram_quantile(lateness, 500) / 1e6, (double)histogram_quantile(lateness, 990) / 1e6,
	       (double)lateness->max_ns / 1e6);
}

/* The same as one line of KEY=VALUE for programs. */
static void report_to(int fd, const struct histogram *lateness, const struct counters *sum, uint64_t accepted,
		      int64_t elapsed_ns, int64_t tick_ns)
{
	FILE *out = fdopen(fd, "w");
	struct rusage usage;

	if (out == NULL)
		fail("cannot write the report", errno);
	getrusage(RUSAGE_SELF, &usage);
	fprintf(out, "accepted=%" PRIu64 " lines=%" PRIu64, accepted, sum->lines);
	fprintf(out, " peer=%" PRIu64 " idle=%" PRIu64 " request=%" PRIu64, sum->closed[BY_PEER],
		sum->closed[BY_IDLE_TIMEOUT], sum->closed[BY_REQUEST_TIMEOUT]);
	fprintf(out, " long=%" PRIu64 " memory=%" PRIu64 " open=%" PRIu64, sum->closed[BY_LONG_LINE],
		sum->closed[BY_LACK_OF_MEMORY], sum->closed[BY_STOP]);
	fprintf(out, " set=%" PRIu64 " cancelled=%" PRIu64 " fired=%" PRIu64, sum->set, sum->cancelled,
		lateness->count);
	fprintf(out, " returned=%" PRIu64 " moved=%" PRIu64 " crossed=%" PRIu64, sum->returned, sum->moved,
		sum->crossed);
	fprintf(out, " tick_ns=%" PRId64 " elapsed_ns=%" PRId64, tick_ns, elapsed_ns);
	fprintf(out, " cpu_us=%" PRId64 " rss_kib=%ld lateness=",
		(int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
		    usage.ru_stime.tv_usec,
		usage.ru_maxrss);
	histogram_write(lateness, out);
	fputc('\n', out);
	if (fclose(out) != 0)
		fail("cannot write the report", errno);
}

static void usage(FILE *out)
{
	fputs("usage: idle_server [options]\n"
	      "Echoes lines (PING: PONG) on 127.0.0.1 and closes silent and slow peers.  SIGINT or SIGTERM ends it.\n"
	      "  -p PORT  to listen on; 0, the default, lets the system choose\n"
	      "  -t N     I/O threads; default: one a core, at least 2\n"
	      "  -i MS    idle timeout, after which a silent peer is closed; default 30000\n"
	      "  -r MS    request timeout, in which a line must be complete; default 10000\n"
	      "  -k MS    tick of the timer, the precision of both; default 10\n"
	      "  -m FD    at the end, write the counters there, too, as one line of KEY=VALUE\n"
	      "  -h       this\n",
	      out);
}

static int number(char option, const char *text, long min, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < min || value > max) {
		fprintf(stderr, "idle_server: -%c takes a number from %ld to %ld, not '%s'\n", option, min, max, text);
		exit(2);
	}
	return (int)value;
}

static struct options parse(int argc, char **argv)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int loops = cores < 2 ? 2 : cores > MAX_LOOPS ? MAX_LOOPS : (int)cores;
	struct options options = {
		.loops = loops, .idle_ms = 30000, .request_ms = 10000, .tick_ms = 10, .report_fd = -1
	};
	int c;

	while ((c = getopt(argc, argv, "p:t:i:r:k:m:h")) != -1) {
		switch (c) {
		case 'p':
			options.port = number('p', optarg, 0, 65535);
			break;
		case 't':
			options.loops = number('t', optarg, 1, MAX_LOOPS);
			break;
		case 'i':
			options.idle_ms = number('i', optarg, 1, 86400000);
			break;
		case 'r':
			options.request_ms = number('r', optarg, 1, 86400000);
			break;
		case 'k':
			options.tick_ms = number('k', optarg, 1, 60000);
			break;
		case 'm':
			options.report_fd = number('m', optarg, 0, 1 << 20);
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "idle_server: unexpected '%s'\n", argv[optind]);
		usage(stderr);
		exit(2);
	}
	return options;
}

/* As many descriptors as we may have; and the signals only through a descriptor, in all threads that are made later. */
static int prepare_process(void)
{
	struct rlimit files;
	sigset_t set;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files); /* or else it stays as it is */
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		fail("signalfd", errno);
	return fd;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct loop *loops = calloc((size_t)options.loops, sizeof(*loops));
	static struct server server;
	hwt_config config = HWT_CONFIG_INIT;
	static struct histogram lateness;
	struct counters sum = { 0 };
	int signals = prepare_process(), listener, rc;
	int64_t start_ns = hwt_now();
	uint64_t accepted;

	config.tick_duration_ns = HWT_MS(options.tick_ms);
	rc = loops != NULL ? hwt_timer_create(&server.timer, &config) : ENOMEM;
	if (rc == 0)
		rc = hwt_timer_start(server.timer); /* hwt_new_timeout would do it too; here we can still complain */
	if (rc != 0)
		fail("cannot make a timer", rc);
	hwt_timer_config(server.timer, &config);
	server.idle_ns = HWT_MS(options.idle_ms);
	server.request_ns = HWT_MS(options.request_ms);
	listener = listen_on_loopback(options.port);
	for (int i = 0; i < options.loops; i++)
		loop_start(&loops[i], &server);

	accepted = accept_all(signals, listener, loops, options.loops);
	close(listener);
	server_stop(&server, loops, options.loops);
	for (int i = 0; i < options.loops; i++) {
		counters_add(&sum, &loops[i].counters);
		histogram_merge(&lateness, &loops[i].lateness);
	}
	report(&lateness, &sum, accepted, hwt_now() - start_ns);
	if (options.report_fd >= 0)
		report_to(options.report_fd, &lateness, &sum, accepted, hwt_now() - start_ns, config.tick_duration_ns);
	free(loops);
	close(signals);
	return 0;
}
