/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retries with exponential back-off and jitter: many requests to a service that refuses most of them.
 *
 *     $ build/examples/backoff -n 1000 -r 70 -a 6
 *     attempt     tried    served   refused   mean wait    late by up to
 *           1      1000       283       717      0.0 ms       79.0 ms
 *           2       717       229       488      7.5 ms       72.1 ms
 *           3       488       137       351     15.1 ms       38.2 ms
 *           4       351        98       253     30.3 ms        5.1 ms
 *           5       253        71       182     61.0 ms        1.5 ms
 *           6       182        53       129    119.7 ms        3.2 ms
 *     1000 requests: 871 served, 129 given up after 6 attempts, 0 began early
 *
 * The first ones are late because all requests come at once and wait for one of four threads.
 *
 *     -n requests   -r per cent that the service refuses   -a attempts before a request gives up
 *     -b first wait, ms   -c longest wait, ms   -w threads of the pool   -s seed
 *
 * Exits with 1 if a request was lost or an attempt began before its time.
 *
 * A request is one timeout for all of its life.  Its task makes an attempt, and after a failure puts itself off:
 * hwt_reschedule_at with its own handle.  The wait before attempt k is drawn between half and all of
 * min(c, b * 2^(k - 2)): half, so that a service that is down gets its rest, and drawn, so that requests that failed
 * together do not come back together.
 *
 * Threads
 *
 *     timer's worker --execute--> pool: task: connect, read ---> service (one thread)
 *          ^                       |
 *          +-- hwt_reschedule_at --+
 *
 *   An attempt blocks, so it must not run on the worker: the others would be late.  The executor puts it into the queue
 *   of a pool.  A request is touched by its task only, and that never runs twice at a time: no lock.  The table is
 *   filled in by many tasks and therefore atomic.
 */
#include <hwt.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ATTEMPTS_MAX 20
#define POOL_MAX 64
#define ANSWER_MS 5000 /* a service that does not answer for so long has refused */

static struct options {
	long requests, refuse_percent, attempts, base_ms, cap_ms, threads, seed;
} options = { 1000, 60, 6, 10, 500, 4, 1 };

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "backoff: %s: %s\n", what, strerror(rc));
	exit(1);
}

/* splitmix64: any seed will do. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/*
 * The service: takes a connection, and answers or resets it.
 */

struct service {
	struct sockaddr_in address;
	int listener;
	uint64_t answered, reset; /* the thread's until it has been joined */
	pthread_t thread;
};

static void *serve(void *arg)
{
	struct linger at_once = { 1, 0 };
	struct service *service = arg;
	uint64_t chance = (uint64_t)options.seed;
	int fd;

	while ((fd = accept4(service->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR ||
	       errno == ECONNABORTED) {
		if (fd < 0)
			continue;
		if (draw(&chance) % 100 < (uint64_t)options.refuse_percent) {
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
			service->reset++;
		} else if (send(fd, "ok\n", 3, MSG_NOSIGNAL) == 3) {
			service->answered++;
		}
		close(fd);
	}
	return NULL;
}

static void service_open(struct service *service)
{
	socklen_t length = sizeof(service->address);

	*service = (struct service){ .address = { .sin_family = AF_INET } };
	service->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	service->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (service->listener < 0 ||
	    bind(service->listener, (struct sockaddr *)&service->address, sizeof(service->address)) != 0 ||
	    listen(service->listener, SOMAXCONN) != 0 ||
	    getsockname(service->listener, (struct sockaddr *)&service->address, &length) != 0)
		check("service", errno);
	check("service", pthread_create(&service->thread, NULL, serve, service));
}

static void service_close(struct service *service)
{
	shutdown(service->listener, SHUT_RDWR); /* its accept fails */
	check("service", pthread_join(service->thread, NULL));
	close(service->listener);
}

/*
 * The pool, an executor: a ring of jobs.  It has room for all requests, and so never refuses.
 */

struct job {
	void (*run)(void *job);
	void *job;
};

static struct pool {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *ring;
	size_t size, head, used;
	bool closing;
	pthread_t threads[POOL_MAX];
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static void *work(void *arg)
{
	struct job job;

	(void)arg;
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		while (pool.used == 0 && !pool.closing)
			pthread_cond_wait(&pool.more, &pool.lock);
		if (pool.used == 0)
			break;
		job = pool.ring[pool.head];
		pool.head = (pool.head + 1) % pool.size;
		pool.used--;
		pthread_mutex_unlock(&pool.lock);
		job.run(job.job);
		pthread_mutex_lock(&pool.lock);
	}
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

static int execute(void *ctx, void (*run)(void *job), void *job)
{
	int rc = 0;

	(void)ctx;
	pthread_mutex_lock(&pool.lock);
	if (pool.used == pool.size)
		rc = EAGAIN; /* then the worker runs it */
	else
		pool.ring[(pool.head + pool.used++) % pool.size] = (struct job){ run, job };
	pthread_mutex_unlock(&pool.lock);
	pthread_cond_signal(&pool.more);
	return rc;
}

static void pool_open(size_t size)
{
	pool.size = size;
	pool.ring = calloc(size, sizeof(*pool.ring));
	check("pool", pool.ring ? 0 : ENOMEM);
	for (long i = 0; i < options.threads; i++)
		check("pool", pthread_create(&pool.threads[i], NULL, work, NULL));
}

static void pool_close(void)
{
	pthread_mutex_lock(&pool.lock);
	pool.closing = true;
	pthread_mutex_unlock(&pool.lock);
	pthread_cond_broadcast(&pool.more);
	for (long i = 0; i < options.threads; i++)
		check("pool", pthread_join(pool.threads[i], NULL));
	free(pool.ring);
}

/*
 * Requests
 */

struct request {
	struct row *row; /* of the attempt to come */
	uint64_t chance;
	int64_t due_ns, wait_ns;
};

/* Of all requests, by the number of the attempt. */
static struct row {
	atomic_long tried, served;
	_Atomic int64_t waited_ns, late_ns;
} rows[ATTEMPTS_MAX];

static struct service service;
static atomic_long unfinished, given_up, early;
static sem_t finished;

static bool attempt(void)
{
	struct timeval patience = { ANSWER_MS / 1000, ANSWER_MS % 1000 * 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[3];
	bool ok;

	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* of connect, too */
	ok = connect(fd, (struct sockaddr *)&service.address, sizeof(service.address)) == 0 &&
	     recv(fd, answer, sizeof(answer), MSG_WAITALL) == 3 && memcmp(answer, "ok\n", 3) == 0;
	close(fd);
	return ok;
}

/* How long to wait after this number of attempts. */
static int64_t backoff_ns(struct request *request, long attempts)
{
	int64_t longest = HWT_MS(options.base_ms), cap = HWT_MS(options.cap_ms);

	for (long i = 1; i < attempts && longest < cap; i++)
		longest *= 2;
	longest = longest < cap ? longest : cap;
	return longest - (int64_t)(draw(&request->chance) % (uint64_t)(longest / 2 + 1));
}

static void note_start(struct request *request)
{
	int64_t late = hwt_now() - request->due_ns, known = atomic_load(&request->row->late_ns);

	if (late < 0)
		atomic_fetch_add(&early, 1);
	while (late > known && !atomic_compare_exchange_weak(&request->row->late_ns, &known, late))
		;
	atomic_fetch_add(&request->row->tried, 1);
	atomic_fetch_add(&request->row->waited_ns, request->wait_ns);
}

static void try(hwt_timeout timeout, void *arg)
{
	struct request *request = arg;

	note_start(request);
	if (attempt()) {
		atomic_fetch_add(&request->row->served, 1);
	} else if (++request->row == rows + options.attempts) {
		atomic_fetch_add(&given_up, 1);
	} else {
		request->wait_ns = backoff_ns(request, request->row - rows);
		request->due_ns = hwt_now() + request->wait_ns;
		check("reschedule", hwt_reschedule_at(timeout, request->due_ns));
		return;
	}
	if (atomic_fetch_sub(&unfinished, 1) == 1)
		sem_post(&finished);
}

static int summary(void)
{
	long served = 0, tried = 0, gave_up = atomic_load(&given_up), began_early = atomic_load(&early);

	printf("attempt     tried    served   refused   mean wait    late by up to\n");
	for (int i = 0; i < options.attempts && atomic_load(&rows[i].tried) > 0; i++) {
		long these = atomic_load(&rows[i].tried), good = atomic_load(&rows[i].served);

		printf("%7d %9ld %9ld %9ld %8.1f ms %10.1f ms\n", i + 1, these, good, these - good,
		       (double)atomic_load(&rows[i].waited_ns) / (double)these / 1e6,
		       (double)atomic_load(&rows[i].late_ns) / 1e6);
		tried += these;
		served += good;
	}
	printf("%ld requests: %ld served, %ld given up after %ld attempts, %ld began early\n", options.requests, served,
	       gave_up, options.attempts, began_early);
	/* The service may have answered more than was heard, never less; and it saw no connection that nobody made. */
	if (served + gave_up != options.requests || began_early != 0 || (uint64_t)served > service.answered ||
	    service.answered + service.reset > (uint64_t)tried) {
		printf("broken: the service answered %" PRIu64 " and reset %" PRIu64 " of %ld attempts\n",
		       service.answered, service.reset, tried);
		return 1;
	}
	return 0;
}

static long number(const char *text, long least, long most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < least || value > most) {
		fprintf(stderr, "backoff: %s is not a number from %ld to %ld\n", text, least, most);
		exit(2);
	}
	return value;
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:r:a:b:c:w:s:")) != -1) {
		switch (option) {
		case 'n':
			options.requests = number(optarg, 1, 1000000);
			break;
		case 'r':
			options.refuse_percent = number(optarg, 0, 100);
			break;
		case 'a':
			options.attempts = number(optarg, 1, ATTEMPTS_MAX);
			break;
		case 'b':
			options.base_ms = number(optarg, 1, 3600000);
			break;
		case 'c':
			options.cap_ms = number(optarg, 1, 3600000);
			break;
		case 'w':
			options.threads = number(optarg, 1, POOL_MAX);
			break;
		case 's':
			options.seed = number(optarg, 0, 1000000000);
			break;
		default:
			fprintf(stderr, "usage: backoff [-n requests] [-r refuse_percent] [-a attempts] [-b base_ms] "
					"[-c cap_ms] [-w threads] [-s seed]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	const hwt_executor executor = { execute, NULL };
	hwt_config config = HWT_CONFIG_INIT;
	struct request *requests;
	hwt_timer *timer;

	read_options(argc, argv);
	requests = calloc((size_t)options.requests, sizeof(*requests));
	check("requests", requests ? 0 : ENOMEM);
	sem_init(&finished, 0, 0);
	service_open(&service);
	pool_open((size_t)options.requests);
	config.tick_duration_ns = HWT_MS(1);
	config.executor = &executor;
	check("timer", hwt_timer_create(&timer, &config));
	atomic_store(&unfinished, options.requests);
	for (long i = 0; i < options.requests; i++) {
		requests[i] = (struct request){ rows, (uint64_t)(options.seed + i) << 20, hwt_now(), 0 };
		check("schedule", hwt_new_timeout_at(timer, try, &requests[i], requests[i].due_ns, NULL));
	}
	while (sem_wait(&finished) != 0)
		;
	check("timer", hwt_timer_destroy(timer)); /* waits for the last tasks to return */
	pool_close();
	service_close(&service);
	sem_destroy(&finished);
	free(requests);
	return summary();
}
