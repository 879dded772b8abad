/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Token buckets: each key may be served so often a second, with a burst; a request that comes too soon waits in line.
 *
 *     $ build/examples/rate_limiter
 *     key      asked    granted    at once  timed out    refused
 *     0         3953        257         21        541       3155
 *     1         2003        256         21        543       1204
 *     ...
 *     all       8000       1500        571       1828       4672
 *     ok: each request has one end, each line is in order, nobody ended early, no key got more than its rate
 *
 *     -k keys   -r tokens a second of each key   -b burst   -q length of the line of a key   -w longest wait, ms
 *     -j threads that ask   -n requests of each, about one a millisecond   -p refill by a periodic timeout
 *
 * Exits with 1 if one of the laws in the last line is broken.  The last is checked apart from the buckets: in no
 * stretch of time t, wherever it begins and ends, a key was granted more than rate * t + burst.
 *
 * Two kinds of timeouts:
 *
 *   refill    of a key: grants the new tokens to the requests that wait.  Tokens are counted by the clock when a
 *             request comes, so a key without a line needs no timeout, however many keys there are.  The first request
 *             in line arms it for the time of the next token; its task moves it on with hwt_reschedule_at while there
 *             is a line.  With -p it is one hwt_new_periodic instead, for as long as the program lives.
 *   patience  of a request that waits: takes it out of the line.  A grant cancels it.
 *
 * Freeing a request
 *
 *   Under the lock of its key a request leaves the line once, granted or timed out.  If it was granted, and hwt_cancel
 *   returned 0, the task of its patience never runs, and the granting thread frees it.  Otherwise the task is about to
 *   run, waits for the lock, finds the request granted, and frees it.
 */
#include <hwt.h>

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define PERIOD_NS HWT_MS(5)

static struct options {
	long keys, rate, burst, line, wait_ms, threads, requests;
	bool periodic;
} options = { 8, 100, 20, 40, 250, 4, 2000, false };

struct request {
	struct request *before, *after; /* in the line */
	struct key *key;
	hwt_timeout patience;
	int64_t deadline_ns;
	uint64_t number; /* in the order of arrival */
	bool granted;
};

/* Of a key, or of all. */
struct sums {
	uint64_t asked, granted, at_once, timed_out, refused;
	uint64_t out_of_order, early, too_many;
};

struct key {
	pthread_mutex_t lock; /* of all that follows */
	struct request *first, *last;
	uint64_t waiting, granted_last; /* number of the request */
	int64_t credit_ns, credited_ns; /* the tokens, at price_ns each, at that time */
	bool armed;
	struct sums sums;
	int64_t least_ns; /* least of "price of all grants so far - time of the next", for the law */
};

static hwt_timer *timer;
static struct key *keys;
static int64_t price_ns;
static atomic_long in_line;

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "rate_limiter: %s: %s\n", what, strerror(rc));
	exit(1);
}

/*
 * Tokens
 */

static void credit(struct key *key, int64_t now_ns)
{
	int64_t full_ns = price_ns * options.burst, grown_ns = now_ns - key->credited_ns;

	key->credit_ns = grown_ns > full_ns - key->credit_ns ? full_ns : key->credit_ns + grown_ns;
	key->credited_ns = now_ns;
}

static bool take_token(struct key *key, int64_t now_ns)
{
	int64_t spent_ns = price_ns * (int64_t)key->sums.granted;

	if (key->credit_ns < price_ns)
		return false;
	key->credit_ns -= price_ns;
	key->sums.granted++;
	/* The law, for the stretch that ends now and began with the grant for which it is hardest to keep. */
	if (key->sums.granted == 1 || spent_ns - now_ns < key->least_ns)
		key->least_ns = spent_ns - now_ns;
	if (spent_ns + price_ns - now_ns - key->least_ns > price_ns * options.burst)
		key->sums.too_many++;
	return true;
}

/*
 * The line.  The caller holds the lock.
 */

static void join_line(struct key *key, struct request *request)
{
	request->before = key->last;
	request->after = NULL;
	*(key->last ? &key->last->after : &key->first) = request;
	key->last = request;
	key->waiting++;
	atomic_fetch_add(&in_line, 1);
}

static void leave_line(struct key *key, struct request *request)
{
	*(request->before ? &request->before->after : &key->first) = request->after;
	*(request->after ? &request->after->before : &key->last) = request->before;
	key->waiting--;
	atomic_fetch_sub(&in_line, 1);
}

static void grant_first(struct key *key)
{
	struct request *request = key->first;

	leave_line(key, request);
	if (request->number <= key->granted_last)
		key->sums.out_of_order++;
	key->granted_last = request->number;
	request->granted = true;
	if (hwt_cancel(request->patience) == 0)
		free(request);
}

static void refill(hwt_timeout timeout, void *arg)
{
	struct key *key = arg;
	int64_t now_ns;

	pthread_mutex_lock(&key->lock);
	now_ns = hwt_now();
	credit(key, now_ns);
	while (key->first && take_token(key, now_ns))
		grant_first(key);
	if (!options.periodic) {
		key->armed = key->first != NULL;
		if (key->armed)
			check("reschedule", hwt_reschedule_at(timeout, now_ns + price_ns - key->credit_ns));
	}
	pthread_mutex_unlock(&key->lock);
}

static void lose_patience(hwt_timeout timeout, void *arg)
{
	struct request *request = arg;
	struct key *key = request->key;

	(void)timeout;
	pthread_mutex_lock(&key->lock);
	if (!request->granted) {
		leave_line(key, request);
		key->sums.timed_out++;
		if (hwt_now() < request->deadline_ns)
			key->sums.early++;
	}
	pthread_mutex_unlock(&key->lock);
	free(request);
}

static void wait_in_line(struct key *key, int64_t now_ns, int64_t patience_ns)
{
	struct request *request = calloc(1, sizeof(*request));

	check("request", request ? 0 : ENOMEM);
	request->key = key;
	request->number = key->sums.asked;
	request->deadline_ns = now_ns + patience_ns;
	join_line(key, request);
	check("patience", hwt_new_timeout_at(timer, lose_patience, request, request->deadline_ns, &request->patience));
	if (!options.periodic && !key->armed) {
		key->armed = true;
		check("refill", hwt_new_timeout_at(timer, refill, key, now_ns + price_ns - key->credit_ns, NULL));
	}
}

static void ask(struct key *key, int64_t patience_ns)
{
	int64_t now_ns;

	pthread_mutex_lock(&key->lock);
	now_ns = hwt_now();
	credit(key, now_ns);
	key->sums.asked++;
	if (key->first == NULL && take_token(key, now_ns)) {
		key->sums.at_once++;
		key->granted_last = key->sums.asked;
	} else if (key->waiting < (uint64_t)options.line) {
		wait_in_line(key, now_ns, patience_ns);
	} else {
		key->sums.refused++;
	}
	pthread_mutex_unlock(&key->lock);
}

/*
 * The load: half of all requests are for the first key, a quarter for the second and so on.
 */

static void sleep_ns(int64_t ns)
{
	struct timespec left = { (time_t)(ns / HWT_S(1)), (long)(ns % HWT_S(1)) };

	nanosleep(&left, NULL);
}

static void *make_load(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (long i = 0; i < options.requests; i++) {
		long key = 0;

		while (key < options.keys - 1 && rand_r(&seed) & 64)
			key++;
		ask(&keys[key], HWT_MS(1 + rand_r(&seed) % options.wait_ms));
		sleep_ns(HWT_US(rand_r(&seed) % 2000));
	}
	return NULL;
}

static void open_keys(void)
{
	int64_t now_ns = hwt_now();

	price_ns = (HWT_S(1) + options.rate - 1) / options.rate;
	keys = calloc((size_t)options.keys, sizeof(*keys));
	check("keys", keys ? 0 : ENOMEM);
	for (long i = 0; i < options.keys; i++) {
		pthread_mutex_init(&keys[i].lock, NULL);
		keys[i].credited_ns = now_ns;
		keys[i].credit_ns = price_ns * options.burst;
		if (options.periodic)
			check("refill", hwt_new_periodic(timer, refill, &keys[i], PERIOD_NS, PERIOD_NS, NULL));
	}
}

static void close_keys(void)
{
	for (long i = 0; i < options.keys; i++)
		pthread_mutex_destroy(&keys[i].lock);
	free(keys);
}

static void print_sums(const char *name, const struct sums *sums)
{
	printf("%-5s %8" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", name, sums->asked,
	       sums->granted, sums->at_once, sums->timed_out, sums->refused);
}

static int summary(void)
{
	struct sums all = { 0 };
	char name[24];

	printf("key      asked    granted    at once  timed out    refused\n");
	for (long i = 0; i < options.keys; i++) {
		const struct sums *sums = &keys[i].sums;

		snprintf(name, sizeof(name), "%ld", i);
		if (sums->asked > 0)
			print_sums(name, sums);
		all.asked += sums->asked;
		all.granted += sums->granted;
		all.at_once += sums->at_once;
		all.timed_out += sums->timed_out;
		all.refused += sums->refused;
		all.out_of_order += sums->out_of_order;
		all.early += sums->early;
		all.too_many += sums->too_many;
	}
	print_sums("all", &all);
	if (all.asked == (uint64_t)(options.threads * options.requests) &&
	    all.granted + all.timed_out + all.refused == all.asked &&
	    all.out_of_order + all.early + all.too_many == 0) {
		puts("ok: each request has one end, each line is in order, nobody ended early, no key got more than "
		     "its rate");
		return 0;
	}
	printf("broken: %" PRIu64 " out of order, %" PRIu64 " ended early, %" PRIu64 " above the rate, %" PRId64
	       " without an end\n",
	       all.out_of_order, all.early, all.too_many,
	       (int64_t)(all.asked - all.granted - all.timed_out - all.refused));
	return 1;
}

static long number(const char *text, long least, long most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < least || value > most) {
		fprintf(stderr, "rate_limiter: %s is not a number from %ld to %ld\n", text, least, most);
		exit(2);
	}
	return value;
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "k:r:b:q:w:j:n:p")) != -1) {
		switch (option) {
		case 'k':
			options.keys = number(optarg, 1, 1000000);
			break;
		case 'r':
			options.rate = number(optarg, 1, 1000000);
			break;
		case 'b':
			options.burst = number(optarg, 1, 1000000);
			break;
		case 'q':
			options.line = number(optarg, 0, 1000000);
			break;
		case 'w':
			options.wait_ms = number(optarg, 1, 60000);
			break;
		case 'j':
			options.threads = number(optarg, 1, THREADS_MAX);
			break;
		case 'n':
			options.requests = number(optarg, 1, 1000000);
			break;
		case 'p':
			options.periodic = true;
			break;
		default:
			fprintf(stderr, "usage: rate_limiter [-k keys] [-r rate] [-b burst] [-q line] [-w wait_ms] "
					"[-j threads] [-n requests] [-p]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	hwt_config config = HWT_CONFIG_INIT;
	pthread_t load[THREADS_MAX];
	int status;

	read_options(argc, argv);
	config.tick_duration_ns = HWT_MS(1);
	check("timer", hwt_timer_create(&timer, &config));
	open_keys();
	for (long i = 0; i < options.threads; i++)
		check("thread", pthread_create(&load[i], NULL, make_load, (void *)(uintptr_t)(i + 1)));
	for (long i = 0; i < options.threads; i++)
		check("thread", pthread_join(load[i], NULL));
	while (atomic_load(&in_line) > 0) /* all have some patience, so this ends */
		sleep_ns(HWT_MS(1));
	check("timer", hwt_timer_destroy(timer));
	status = summary();
	close_keys();
	return status;
}
