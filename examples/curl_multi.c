/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcurl's multi interface with a timer: fetches all of its arguments at the same time, in one thread.
 *
 *     $ build/examples/curl_multi -t 2000 http://127.0.0.1:8000/ http://127.0.0.1:1/
 *     200     0.007 s     13893 bytes  http://127.0.0.1:8000/
 *     ---     0.000 s         0 bytes  http://127.0.0.1:1/  Couldn't connect to server
 *     $ build/examples/curl_multi --self-test      against a server of its own
 *     ok: 40 transfers
 *
 *     -t MS   how long a transfer may take (10000)
 *
 * Exits with 1 if a transfer failed.
 *
 * libcurl has one time for everything that it waits for: CURLMOPT_TIMERFUNCTION says when to call it next, and says
 * something else all the time.  That is one handle and hwt_reschedule: most calls move a pending timeout.  From within
 * its own task the same call arms it again, and when it has ended, or never began, it is refused with ENOENT and a new
 * one is made.
 *
 *     epoll: timer's descriptor --> hwt_timer_advance --> task: curl_multi_socket_action(TIMEOUT) --+
 *            sockets -------------> curl_multi_socket_action(socket) -------------------------------+
 *                                                                                                   |
 *            set_timer: hwt_reschedule, watch_socket: epoll_ctl  <------- libcurl's two callbacks --+
 */
#include <hwt.h>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 16

struct transfer {
	CURL *easy;
	const char *url;
	long most_ms;
	size_t bytes;
	CURLcode result;
	long status;
};

static hwt_timer *timer;
static hwt_timeout timeout; /* libcurl's one */
static int64_t timeout_ns;  /* when it is due */
static CURLM *multi;
static int epoll, running;

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "curl_multi: %s: %s\n", what, strerror(rc));
	exit(1);
}

static void check_multi(CURLMcode rc)
{
	if (rc == CURLM_OK)
		return;
	fprintf(stderr, "curl_multi: %s\n", curl_multi_strerror(rc));
	exit(1);
}

/*
 * libcurl, the timer and epoll
 */

static void on_timeout(hwt_timeout mine, void *arg)
{
	(void)mine;
	(void)arg;
	if (hwt_now() < timeout_ns) {
		fprintf(stderr, "curl_multi: called before the time\n");
		exit(1);
	}
	check_multi(curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running));
}

/* libcurl must not be called from here, with 0 neither: then the task runs at the next tick. */
static int set_timer(CURLM *from, long delay_ms, void *arg)
{
	int rc;

	(void)from;
	(void)arg;
	if (delay_ms < 0) {
		(void)hwt_cancel(timeout); /* or it is running, or there is none */
		return 0;
	}
	timeout_ns = hwt_now() + HWT_MS(delay_ms);
	rc = hwt_reschedule_at(timeout, timeout_ns);
	if (rc == ENOENT)
		rc = hwt_new_timeout_at(timer, on_timeout, NULL, timeout_ns, &timeout);
	return rc == 0 ? 0 : -1; /* libcurl reports it */
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	static char yes;
	struct epoll_event event = { .data = { .fd = fd } };

	(void)easy;
	(void)arg;
	if (what == CURL_POLL_REMOVE) {
		(void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL); /* closed already, it may be */
		return 0;
	}
	event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
	if (epoll_ctl(epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
		return -1;
	check_multi(curl_multi_assign(multi, fd, &yes));
	return 0;
}

static size_t count_bytes(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *transfer = arg;

	(void)data;
	transfer->bytes += size * n;
	return size * n;
}

static void take_results(void)
{
	struct transfer *transfer;
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(multi, &left)) != NULL) {
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
		transfer->result = message->data.result;
		curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
	}
}

static void loop(int timer_fd)
{
	struct epoll_event events[EVENTS], of_timer = { .events = EPOLLIN, .data = { .fd = timer_fd } };

	check("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, timer_fd, &of_timer) == 0 ? 0 : errno);
	while (running > 0) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		if (n < 0 && errno != EINTR)
			check("epoll_wait", errno);
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd, bits = 0;

			if (fd == timer_fd) {
				check("advance", hwt_timer_advance(timer, hwt_now(), NULL));
				continue;
			}
			bits |= events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0;
			bits |= events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0;
			bits |= events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0;
			check_multi(curl_multi_socket_action(multi, fd, bits, &running));
		}
		take_results();
	}
}

static void fetch(struct transfer *transfers, int n)
{
	hwt_config config = HWT_CONFIG_INIT;
	int timer_fd;

	config.flags = HWT_CALLER_DRIVEN;
	config.tick_duration_ns = HWT_MS(1);
	check("timer", hwt_timer_create(&timer, &config));
	check("timer", hwt_timer_fd(timer, &timer_fd));
	epoll = epoll_create1(EPOLL_CLOEXEC);
	check("epoll", epoll < 0 ? errno : 0);
	multi = curl_multi_init();
	check("multi", multi ? 0 : ENOMEM);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	for (int i = 0; i < n; i++) {
		CURL *easy = transfers[i].easy = curl_easy_init();

		check("transfer", easy ? 0 : ENOMEM);
		curl_easy_setopt(easy, CURLOPT_URL, transfers[i].url);
		curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfers[i]);
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfers[i]);
		curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
		curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
		curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, transfers[i].most_ms);
		check_multi(curl_multi_add_handle(multi, easy));
	}
	running = n;
	loop(timer_fd);
	for (int i = 0; i < n; i++)
		check_multi(curl_multi_remove_handle(multi, transfers[i].easy));
	check_multi(curl_multi_cleanup(multi)); /* may call set_timer, so the timer goes last */
	check("destroy", hwt_timer_destroy(timer));
	close(epoll);
}

static int report(const struct transfer *transfers, int n)
{
	int failed = 0;

	for (int i = 0; i < n; i++) {
		const struct transfer *transfer = &transfers[i];
		curl_off_t us = 0;

		curl_easy_getinfo(transfer->easy, CURLINFO_TOTAL_TIME_T, &us);
		if (transfer->result == CURLE_OK)
			printf("%03ld %9.3f s %9zu bytes  %s\n", transfer->status, (double)us / 1e6, transfer->bytes,
			       transfer->url);
		else
			printf("--- %9.3f s %9zu bytes  %s  %s\n", (double)us / 1e6, transfer->bytes, transfer->url,
			       curl_easy_strerror(transfer->result));
		failed += transfer->result != CURLE_OK;
	}
	return failed ? 1 : 0;
}

/*
 * The self test, and its server: a thread for each connection, one request in each.
 */

#define TEST_TRANSFERS 40
#define TEST_MOST_MS 300000 /* of what is answered, however busy the machine */
#define BIG_BYTES 300000

static pthread_t answering[2 * TEST_TRANSFERS]; /* two of ten are led on to another page */

static void send_bytes(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		if (sent <= 0)
			return; /* the test will see it */
		bytes += sent;
		n -= (size_t)sent;
	}
}

static void *answer(void *arg)
{
	static const char big[BIG_BYTES];
	struct timespec pause = { 0, 200000000 };
	int fd = (int)(intptr_t)arg;
	char request[2048], head[128];
	size_t size = 0, used = 0;
	ssize_t n;

	memset(request, 0, sizeof(request));
	while (used < sizeof(request) - 1 && strstr(request, "\r\n\r\n") == NULL &&
	       (n = recv(fd, request + used, sizeof(request) - 1 - used, 0)) > 0)
		used += (size_t)n;
	if (strncmp(request, "GET /never ", 11) == 0) {
		(void)recv(fd, request, 1, 0); /* until the client gives up */
	} else if (strncmp(request, "GET /moved ", 11) == 0) {
		static const char moved[] = "HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Length: 0\r\n"
					    "Connection: close\r\n\r\n";
		send_bytes(fd, moved, sizeof(moved) - 1);
	} else {
		if (strncmp(request, "GET /slow ", 10) == 0)
			nanosleep(&pause, NULL);
		size = strncmp(request, "GET /big ", 9) == 0 ? BIG_BYTES : 5;
		snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
			 size);
		send_bytes(fd, head, strlen(head));
		send_bytes(fd, big, size);
	}
	close(fd);
	return NULL;
}

static void *serve(void *arg)
{
	int listener = *(int *)arg, fd;
	size_t n = 0;

	while (n < sizeof(answering) / sizeof(*answering) && (fd = accept(listener, NULL, NULL)) >= 0) {
		check("server", pthread_create(&answering[n], NULL, answer, (void *)(intptr_t)fd));
		n++;
	}
	for (size_t i = 0; i < n; i++)
		pthread_join(answering[i], NULL);
	return NULL;
}

static int listen_on_loopback(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	if (fd < 0 || bind(fd, (struct sockaddr *)address, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)address, &length) != 0)
		check("server", errno);
	return fd;
}

static int self_test(void)
{
	static const struct page {
		const char *path;
		CURLcode result;
		size_t bytes;
		long most_ms;
	} pages[] = { { "hello", CURLE_OK, 5, TEST_MOST_MS },
		      { "slow", CURLE_OK, 5, TEST_MOST_MS },
		      { "never", CURLE_OPERATION_TIMEDOUT, 0, 500 },
		      { "big", CURLE_OK, BIG_BYTES, TEST_MOST_MS },
		      { "moved", CURLE_OK, 5, TEST_MOST_MS } };
	static struct transfer transfers[TEST_TRANSFERS];
	static char urls[TEST_TRANSFERS][64];
	struct sockaddr_in address;
	int listener = listen_on_loopback(&address), wrong = 0;
	pthread_t server;

	check("server", pthread_create(&server, NULL, serve, &listener));
	for (int i = 0; i < TEST_TRANSFERS; i++) {
		snprintf(urls[i], sizeof(urls[i]), "http://127.0.0.1:%d/%s", ntohs(address.sin_port),
			 pages[i % 5].path);
		transfers[i].url = urls[i];
		transfers[i].most_ms = pages[i % 5].most_ms;
	}
	fetch(transfers, TEST_TRANSFERS);
	shutdown(listener, SHUT_RDWR); /* its accept fails */
	pthread_join(server, NULL);
	close(listener);
	for (int i = 0; i < TEST_TRANSFERS; i++)
		wrong += transfers[i].result != pages[i % 5].result || transfers[i].bytes != pages[i % 5].bytes ||
			 (transfers[i].result == CURLE_OK && transfers[i].status != 200);
	if (wrong > 0)
		report(transfers, TEST_TRANSFERS);
	printf("%s: %d transfers\n", wrong ? "broken" : "ok", wrong ? wrong : TEST_TRANSFERS);
	for (int i = 0; i < TEST_TRANSFERS; i++)
		curl_easy_cleanup(transfers[i].easy);
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct transfer *transfers;
	long most_ms = 10000;
	int option, n, status;

	check("libcurl", curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : ENOMEM);
	if (argc == 2 && strcmp(argv[1], "--self-test") == 0) {
		/* no proxy: the server is here */
		unsetenv("http_proxy");
		unsetenv("all_proxy");
		unsetenv("ALL_PROXY");
		status = self_test();
		curl_global_cleanup();
		return status;
	}
	while ((option = getopt(argc, argv, "t:")) == 't')
		most_ms = atol(optarg);
	n = argc - optind;
	if (option != -1 || n == 0 || most_ms <= 0) {
		fprintf(stderr, "usage: curl_multi [-t MS] URL... | --self-test\n");
		return 2;
	}
	transfers = calloc((size_t)n, sizeof(*transfers));
	check("transfers", transfers ? 0 : ENOMEM);
	for (int i = 0; i < n; i++) {
		transfers[i].url = argv[optind + i];
		transfers[i].most_ms = most_ms;
	}
	fetch(transfers, n);
	status = report(transfers, n);
	for (int i = 0; i < n; i++)
		curl_easy_cleanup(transfers[i].easy);
	free(transfers);
	curl_global_cleanup();
	return status;
}
