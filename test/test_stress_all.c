/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything against everything: in each round a timer of another make, and every call from several threads, from tasks
 * and from finalisers, while tasks that re-arm themselves keep the worker busy, until two threads stop it at once.
 *
 * The law of each timeout: it is armed once, and once more each time its own task re-arms it; each arming ends in a
 * run, in a cancel that returned 0, or in the hands of the stop; there is at most one end of the last two kinds, and a
 * periodic timeout has exactly one.  It never runs before a deadline that it was ever given, never twice at once, never
 * after a hwt_cancel_sync, its finaliser or a stop; and the finaliser is called exactly once.
 *
 * Liveness: a thread that schedules less than the worker can do sees its timeouts run, whatever the others do.
 */
#include "support.h"

#include <dlfcn.h>
#include <poll.h>

#define ACTORS 4
#define PROBES 2
#define PROBES_EACH 12
#define LIVES 6000   /* timeouts of a round */
#define HYDRAS 20000 /* at most */
#define ROUNDS 16

/*
 * A pool of threads as executor.  Its queue is bounded: it refuses jobs that do not fit, and further ones if told to.
 */
#define POOL_QUEUE 65536

struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct {
		void (*run)(void *job);
		void *job;
	} queue[POOL_QUEUE];
	unsigned first, count, capacity;
	bool closed;
	unsigned refuse_every, asked, refused;
	struct crew crew;
};

static int pool_execute(void *ctx, void (*run)(void *job), void *job)
{
	struct pool *pool = ctx;
	int rc = 0;

	pthread_mutex_lock(&pool->mutex);
	if (pool->count == pool->capacity || (pool->refuse_every && ++pool->asked % pool->refuse_every == 0)) {
		pool->refused++;
		rc = EAGAIN;
	} else {
		unsigned at = (pool->first + pool->count++) % POOL_QUEUE;

		pool->queue[at].run = run;
		pool->queue[at].job = job;
	}
	pthread_cond_signal(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
	return rc;
}

static void *pool_thread(void *arg)
{
	struct pool *pool = arg;

	pthread_mutex_lock(&pool->mutex);
	for (;;) {
		void (*run)(void *job);
		void *job;

		while (pool->count == 0 && !pool->closed)
			pthread_cond_wait(&pool->changed, &pool->mutex);
		if (pool->count == 0)
			break;
		run = pool->queue[pool->first].run;
		job = pool->queue[pool->first].job;
		pool->first = (pool->first + 1) % POOL_QUEUE;
		pool->count--;
		pthread_mutex_unlock(&pool->mutex);
		run(job);
		pthread_mutex_lock(&pool->mutex);
	}
	pthread_mutex_unlock(&pool->mutex);
	return NULL;
}

static void pool_start(struct pool *pool, unsigned threads)
{
	memset(pool, 0, sizeof(*pool));
	pool->capacity = POOL_QUEUE;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->changed, NULL);
	crew_start(&pool->crew, threads, pool_thread, pool, 0);
}

static void pool_stop(struct pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	pool->closed = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
	crew_join(&pool->crew);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->mutex);
}

enum executing { ON_THE_WORKER, IN_A_POOL, INLINE, REFUSING, ON_TASK_THREADS, EXECUTINGS };
enum driving { BY_THE_WORKER, BY_A_LOOP, BY_A_POLL, DRIVINGS };

/* A timer, and the state of the round around it. */
struct world {
	hwt_timer *timer;
	enum executing executing;
	enum driving driving;
	int64_t limit;
	uint32_t max_transfers;
	bool starved; /* memory is refused now and then */
	uint64_t seed;
	struct life *lives;
	atomic_uint taken; /* lives that have been taken */
	atomic_bool enough, stopped;
	atomic_uint probes_done;
	_Atomic int64_t slowest_probe_ns;
	atomic_ullong hydras_accepted, hydras_ran;
	atomic_ullong handed_out, hydras_handed_out;
};

struct life {
	struct world *world;
	hwt_timeout timeout;
	atomic_bool known; /* the timeout has been accepted, and its handle may be read */
	bool is_periodic, has_release;
	unsigned rearms; /* rearms left; only the task uses it */
	uint64_t random; /* only the task uses it */
	_Atomic int64_t floor_ns;
	atomic_uint armings, runs, cancels, returns, releases, inside;
	atomic_bool quiet; /* after a hwt_cancel_sync: the task does not run any more */
};

static struct pool pool;

static bool chance(uint64_t *random, unsigned one_in)
{
	struct prng prng = { *random };
	bool yes = prng_below(&prng, one_in) == 0;

	*random = prng.state;
	return yes;
}

/* Checks that rc is 0 or one of the given errors; ENOMEM only where memory may be refused. */
static bool one_of(const struct world *world, int rc, int a, int b, int c)
{
	return rc == 0 || rc == a || rc == b || rc == c || (rc == ENOMEM && world->starved);
}

static struct life *some_life(struct world *world, struct prng *prng)
{
	unsigned taken = atomic_load(&world->taken);
	struct life *life;

	if (taken == 0)
		return NULL;
	taken = taken < LIVES ? taken : LIVES;
	/* Half of the draws are from the newest lives, which are on their way. */
	life = &world->lives[prng_below(prng, 2) == 0 ? prng_below(prng, taken)
						      : taken - 1 - prng_below(prng, taken < 64 ? taken : 64)];
	return atomic_load(&life->known) ? life : NULL;
}

static void cancel_life(struct life *life)
{
	int rc = hwt_cancel(life->timeout);

	CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	if (rc == 0)
		atomic_fetch_add(&life->cancels, 1);
}

static void cancel_and_wait(struct life *life)
{
	int rc = hwt_cancel_sync(life->timeout);

	CHECK(rc == 0 || rc == ENOENT);
	if (rc == 0)
		atomic_fetch_add(&life->cancels, 1);
	atomic_store(&life->quiet, true);
}

/* Lowers the floor before a call, since the task may start before the call returns. */
static void lower_floor(struct life *life, int64_t deadline_ns)
{
	int64_t floor_ns = atomic_load(&life->floor_ns);

	while (floor_ns > deadline_ns && !atomic_compare_exchange_weak(&life->floor_ns, &floor_ns, deadline_ns))
		;
}

static void move_life(struct life *life, struct prng *prng)
{
	int64_t delay_ns = prng_between(prng, -HWT_MS(1), HWT_MS(20)), deadline_ns = hwt_now() + delay_ns;
	int rc;

	lower_floor(life, deadline_ns);
	rc = prng_below(prng, 2) == 0 ? hwt_reschedule(life->timeout, delay_ns)
				      : hwt_reschedule_at(life->timeout, deadline_ns);
	CHECK(one_of(life->world, rc, EBUSY, ENOENT, ENOBUFS));
}

static void look_at(struct life *life)
{
	char text[128];
	int64_t left_ns;
	int rc = hwt_timeout_left(life->timeout, &left_ns);

	CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	CHECK(hwt_timeout_timer(life->timeout) == life->world->timer);
	CHECK_INT(hwt_timeout_state(life->timeout), !=, HWT_NONE);
	CHECK_INT(hwt_timeout_format(life->timeout, text, sizeof(text)), >, 0);
	CHECK(!(hwt_is_cancelled(life->timeout) && hwt_is_expired(life->timeout)));
	(void)hwt_timeout_missed(life->timeout);
}

static void new_life(struct world *world, struct prng *prng);

/* Makes calls in a task or a finaliser, which may do what every other thread may. */
static void act_inside(struct life *life)
{
	struct world *world = life->world;
	struct prng prng = { life->random += 2 };
	struct life *other = some_life(world, &prng);

	switch (prng_below(&prng, 24)) {
	case 0:
		new_life(world, &prng);
		break;
	case 1:
		if (other != NULL)
			cancel_life(other);
		break;
	case 2: /* two tasks on task threads could wait for each other */
		if (other != NULL && (world->executing == ON_THE_WORKER || world->executing == INLINE) &&
		    atomic_load(&other->inside) == 0)
			cancel_and_wait(other);
		break;
	case 3: /* in its own task this would re-arm */
		if (other != NULL && other != life)
			move_life(other, &prng);
		break;
	case 4:
		if (other != NULL)
			look_at(other);
		break;
	default:
		break;
	}
}

static void cancel_oneself(struct life *life, bool rearmed)
{
	int rc = hwt_cancel(life->timeout);

	CHECK(rc == 0 || rc == EBUSY || rc == ENOENT);
	CHECK(rc != 0 || rearmed || life->is_periodic);
	if (rc == 0)
		atomic_fetch_add(&life->cancels, 1);
}

/* Uses the handle that the task gets: the producer may not have stored its own yet. */
static void live(hwt_timeout timeout, void *arg)
{
	struct life *life = arg;
	bool rearmed = false;
	int rc;

	CHECK_INT(hwt_now(), >=, atomic_load(&life->floor_ns));
	CHECK(!atomic_load(&life->world->stopped));
	CHECK_INT(atomic_fetch_add(&life->inside, 1), ==, 0);
	CHECK(!atomic_load(&life->quiet));
	CHECK_INT(atomic_load(&life->releases), ==, 0);
	CHECK_INT(hwt_timeout_state(timeout), ==, HWT_RUNNING);
	atomic_fetch_add(&life->runs, 1);
	act_inside(life);
	if (chance(&life->random, 64)) {
		CHECK_INT(hwt_timer_stop(life->world->timer, NULL), ==, EDEADLK);
		CHECK_INT(hwt_timer_destroy(life->world->timer), ==, EDEADLK);
		CHECK_INT(hwt_cancel_sync(timeout), ==, EDEADLK);
	}
	if (!life->is_periodic && life->rearms > 0 && chance(&life->random, 2)) {
		life->rearms--;
		lower_floor(life, hwt_now());
		rc = hwt_reschedule(timeout, (int64_t)(life->random % (uint64_t)HWT_MS(3)));
		CHECK(one_of(life->world, rc, EBUSY, ENOENT, ENOBUFS));
		rearmed = rc == 0;
		atomic_fetch_add(&life->armings, rearmed);
	}
	if (atomic_load(&life->known) && chance(&life->random, 8))
		cancel_oneself(life, rearmed);
	CHECK(!atomic_load(&life->quiet));
	CHECK_INT(atomic_load(&life->releases), ==, 0);
	CHECK_INT(atomic_fetch_sub(&life->inside, 1), ==, 1);
}

static void release_life(void *arg)
{
	struct life *life = arg;

	CHECK_INT(atomic_load(&life->inside), ==, 0);
	CHECK_INT(atomic_fetch_add(&life->releases, 1), ==, 0);
	act_inside(life);
}

/* Schedules a timeout in one of all ways. */
static int schedule(struct life *life, struct prng *prng)
{
	hwt_timer *timer = life->world->timer;
	int64_t delay_ns = prng_below(prng, 8) == 0 ? HWT_S(3600) : prng_between(prng, -HWT_MS(1), HWT_MS(10));
	int64_t period_ns = prng_between(prng, HWT_MS(1), HWT_MS(8)), deadline_ns = hwt_now() + delay_ns;
	hwt_spec spec = { .size = sizeof(spec), .task = live, .arg = life };

	atomic_store(&life->floor_ns, deadline_ns);
	switch (prng_below(prng, 5)) {
	case 0:
		return hwt_new_timeout_at(timer, live, life, deadline_ns, &life->timeout);
	case 1:
		life->is_periodic = true;
		return hwt_new_periodic(timer, live, life, delay_ns, period_ns, &life->timeout);
	case 2:
		life->is_periodic = prng_below(prng, 2) == 0;
		life->has_release = true;
		spec.release = release_life;
		spec.period_ns = life->is_periodic ? period_ns : 0;
		spec.when_ns = deadline_ns;
		spec.flags = HWT_ABSOLUTE;
		return hwt_new_timeout_ex(timer, &spec, &life->timeout);
	default:
		return hwt_new_timeout(timer, live, life, delay_ns, &life->timeout);
	}
}

static void new_life(struct world *world, struct prng *prng)
{
	unsigned i = atomic_fetch_add(&world->taken, 1);
	struct life *life = &world->lives[i];
	int rc;

	if (i >= LIVES) {
		atomic_fetch_sub(&world->taken, 1);
		return;
	}
	life->world = world;
	life->random = prng_next(prng);
	life->rearms = (unsigned)prng_below(prng, 4);
	rc = schedule(life, prng);
	CHECK(one_of(world, rc, ECANCELED, world->limit > 0 ? ENOBUFS : 0, 0));
	if (rc == 0) {
		atomic_fetch_add(&life->armings, 1);
		atomic_store(&life->known, true);
	}
}

/* Makes calls with the timer itself. */
static void ask(struct world *world, struct prng *prng)
{
	hwt_config config = { .size = sizeof(config) };
	bool is_driven = world->driving != BY_THE_WORKER;
	int64_t next_ns;
	int rc, fd;

	switch (prng_below(prng, 7)) {
	case 0:
		(void)stats_of(world->timer);
		break;
	case 1:
		(void)hwt_pending_timeouts(world->timer); /* exact only while no thread is in a call */
		break;
	case 2:
		CHECK_RC(hwt_timer_config(world->timer, &config), 0);
		break;
	case 3:
		rc = hwt_timer_start(world->timer);
		CHECK(rc == 0 || rc == ECANCELED);
		break;
	case 4:
		rc = hwt_timer_advance(world->timer, hwt_now(), NULL);
		CHECK(is_driven ? rc == 0 || rc == EBUSY || rc == ECANCELED : rc == EINVAL);
		break;
	case 5:
		rc = hwt_timer_next(world->timer, &next_ns);
		CHECK(is_driven ? rc == 0 || rc == EBUSY || rc == ECANCELED : rc == EINVAL);
		break;
	default:
		if (world->driving == BY_A_LOOP)
			break;
		rc = hwt_timer_fd(world->timer, &fd);
		CHECK(is_driven ? one_of(world, rc, EBUSY, ECANCELED, ENOTSUP) : rc == EINVAL);
		break;
	}
}

struct actor {
	struct world *world;
	uint64_t seed;
};

/* A thread that goes on after the stop checks that each call says so. */
static void *act(void *arg)
{
	struct actor *actor = arg;
	struct world *world = actor->world;
	struct prng prng = { actor->seed };

	while (!atomic_load(&world->enough)) {
		struct life *life = some_life(world, &prng);
		uint64_t dice = prng_below(&prng, 20);

		if (dice < 6)
			new_life(world, &prng);
		else if (dice < 8)
			ask(world, &prng);
		else if (dice < 10)
			sleep_ns(prng_between(&prng, 0, HWT_US(100)));
		else if (life == NULL)
			sched_yield();
		else if (dice < 14)
			cancel_life(life);
		else if (dice < 15)
			cancel_and_wait(life);
		else if (dice < 18)
			move_life(life, &prng);
		else
			look_at(life);
	}
	return NULL;
}

/* Each run schedules another: with many of them a pass never finds the worker's lane empty. */
static void hydra(hwt_timeout timeout, void *arg)
{
	struct world *world = arg;

	(void)timeout;
	CHECK(!atomic_load(&world->stopped));
	atomic_fetch_add(&world->hydras_ran, 1);
	if (!atomic_load(&world->enough) && hwt_new_timeout(world->timer, hydra, world, 0, NULL) == 0)
		atomic_fetch_add(&world->hydras_accepted, 1);
}

/* Schedules one timeout at a time.  A timer at its limit, or out of memory, may refuse; then the probe tries again. */
static void *probe(void *arg)
{
	struct world *world = ((struct actor *)arg)->world;
	struct prng prng = { ((struct actor *)arg)->seed };
	static atomic_uint ran; /* shared by both probes; outlives a round that failed */

	for (unsigned i = 0; i < PROBES_EACH; i++) {
		int64_t began_ns = hwt_now(), slowest_ns = atomic_load(&world->slowest_probe_ns), took_ns;
		hwt_timeout timeout;
		bool has_ended;
		int rc = hwt_new_timeout(world->timer, count_task, &ran, prng_between(&prng, 0, HWT_MS(3)), &timeout);

		CHECK(one_of(world, rc, world->limit > 0 ? ENOBUFS : 0, 0, 0));
		if (rc != 0) {
			sleep_ns(HWT_US(500));
			continue;
		}
		has_ended = wait_ended(timeout);
		CHECK(has_ended);
		if (!has_ended)
			break;
		took_ns = hwt_now() - began_ns;
		while (took_ns > slowest_ns &&
		       !atomic_compare_exchange_weak(&world->slowest_probe_ns, &slowest_ns, took_ns))
			;
	}
	atomic_fetch_add(&world->probes_done, 1);
	return NULL;
}

/* The user's loop. */
static void *drive(void *arg)
{
	struct world *world = ((struct actor *)arg)->world;
	struct pollfd poll_fd = { .fd = -1, .events = POLLIN };
	int64_t next_ns = 0;

	for (;;) {
		int rc = hwt_timer_advance(world->timer, hwt_now(), &next_ns);

		CHECK(rc == 0 || rc == EBUSY || rc == ECANCELED);
		if (rc == ECANCELED)
			return NULL;
		if (world->driving == BY_A_POLL && poll_fd.fd < 0)
			(void)hwt_timer_fd(world->timer, &poll_fd.fd);
		if (poll_fd.fd >= 0)
			(void)poll(&poll_fd, 1, 50); /* a stop does not end the poll */
		else if (rc == EBUSY || next_ns > hwt_now())
			sleep_ns(HWT_US(200));
	}
}

static int run_inline(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	run(job);
	return 0;
}

/* A symbol of the library's test build; NULL in the build that ships. */
typedef bool mem_refuses(void);
static _Atomic(mem_refuses *) *refuses;

/* A symbol of the test build: hwt_test_full, the records that wait in a lane before it is full. */
static _Atomic uint64_t *full;

static bool refuse_some(void)
{
	static _Thread_local struct prng prng;

	if (prng.state == 0)
		prng.state = (uint64_t)(uintptr_t)&prng;
	return prng_below(&prng, 16) == 0;
}

static void set_memory_refused(const struct world *world, bool refused)
{
	if (world->starved)
		atomic_store(refuses, refused ? refuse_some : NULL);
}

static void make_timer(struct world *world, struct prng *prng)
{
	hwt_executor executor = { world->executing == INLINE ? run_inline : pool_execute, &pool };
	hwt_config config = HWT_CONFIG_INIT;

	config.tick_duration_ns = prng_below(prng, 3) == 0 ? HWT_MS(1) : HWT_US(10);
	config.flags = HWT_FINE_TICKS | (world->driving != BY_THE_WORKER ? HWT_CALLER_DRIVEN : 0);
	config.ticks_per_wheel = 1u << prng_below(prng, 11);
	config.max_transfers_per_tick = world->max_transfers;
	config.max_pending_timeouts = world->limit;
	config.wheel = prng_below(prng, 2) == 0 ? HWT_WHEEL_HASHED : HWT_WHEEL_HIERARCHICAL;
	if (world->executing == ON_TASK_THREADS)
		config.task_threads = 1 + (uint32_t)prng_below(prng, 3);
	else if (world->executing != ON_THE_WORKER)
		config.executor = &executor;
	printf("# max_transfers %" PRIu32 ", limit %" PRId64 ", %s wheel of %" PRIu32 ", executor %d, driving %d%s\n",
	       config.max_transfers_per_tick, config.max_pending_timeouts,
	       config.wheel == HWT_WHEEL_HASHED ? "hashed" : "hierarchical", config.ticks_per_wheel,
	       (int)world->executing, (int)world->driving, world->starved ? ", starved" : "");
	REQUIRE(hwt_timer_create(&world->timer, &config) == 0);
}

static void *stop_it(void *arg)
{
	struct world *world = ((struct actor *)arg)->world;
	hwt_unprocessed given;
	size_t said = 0;

	CHECK_RC(hwt_timer_stop(world->timer, &said), 0);
	atomic_store(&world->stopped, true);
	atomic_fetch_add(&world->handed_out, said);
	while (hwt_timer_next_unprocessed(world->timer, &given)) {
		atomic_fetch_sub(&world->handed_out, 1);
		if (given.task == hydra)
			atomic_fetch_add(&world->hydras_handed_out, 1);
		else if (given.task == live)
			atomic_fetch_add(&((struct life *)given.arg)->returns, 1);
	}
	return NULL;
}

static void check_law(const struct life *life)
{
	unsigned armings = atomic_load(&life->armings), cancels = atomic_load(&life->cancels);
	unsigned returns = atomic_load(&life->returns), runs = atomic_load(&life->runs);

	CHECK_INT(atomic_load(&life->inside), ==, 0);
	if (!atomic_load(&life->known)) {
		CHECK_INT(armings + cancels + returns + runs + atomic_load(&life->releases), ==, 0);
		return;
	}
	if (life->is_periodic)
		CHECK_INT(cancels + returns, ==, 1);
	else
		CHECK_INT(armings, ==, runs + cancels + returns);
	CHECK_INT(cancels + returns, <=, 1);
	CHECK_INT(atomic_load(&life->releases), ==, life->has_release);
}

/*
 * Returns their number: more than the worker takes in at once, so that they refill its lane as fast as it drains it;
 * below a limit they leave room for the others.
 */
static unsigned how_many_hydras(const struct world *world)
{
	unsigned hydras = 2 * world->max_transfers + 100;

	if (world->limit > 0 && hydras > world->limit / 2)
		return (unsigned)world->limit / 2;
	return hydras < HYDRAS ? hydras : HYDRAS;
}

/* Waits until the probes have run often enough. */
static void let_live(struct world *world, struct actor *actors)
{
	struct crew acting, driving = { .count = 0 }, probing, stopping;
	unsigned hydras = how_many_hydras(world);

	set_memory_refused(world, true);
	if (world->driving != BY_THE_WORKER)
		crew_start(&driving, 1, drive, actors, sizeof(*actors));
	for (unsigned i = 0; i < hydras; i++)
		if (hwt_new_timeout(world->timer, hydra, world, 0, NULL) == 0)
			atomic_fetch_add(&world->hydras_accepted, 1);
	crew_start(&acting, ACTORS, act, actors, sizeof(*actors));
	crew_start(&probing, PROBES, probe, actors + ACTORS, sizeof(*actors));
	crew_join(&probing);
	crew_start(&stopping, 2, stop_it, actors, sizeof(*actors));
	crew_join(&stopping);
	atomic_store(&world->enough, true);
	crew_join(&acting);
	crew_join(&driving);
	set_memory_refused(world, false);
}

static void one_round(uint64_t seed, unsigned round)
{
	struct prng prng = { seed + round };
	struct world world = { .executing = (enum executing)(round % EXECUTINGS),
			       .driving = (enum driving)(round % DRIVINGS),
			       .limit = prng_below(&prng, 3) == 0 ? prng_between(&prng, 50, 2000) : 0,
			       .max_transfers = 1 + (uint32_t)(prng_next(&prng) % 100000 >> prng_below(&prng, 17)),
			       .starved = refuses != NULL && prng_below(&prng, 2) == 0,
			       .lives = calloc(LIVES, sizeof(struct life)) };
	struct actor actors[ACTORS + PROBES];
	bool has_pool = world.executing == IN_A_POOL || world.executing == REFUSING;
	unsigned lives;

	REQUIRE(world.lives != NULL);
	if (world.executing == ON_TASK_THREADS)
		world.driving = BY_THE_WORKER;
	if (has_pool)
		pool_start(&pool, 2);
	if (world.executing == REFUSING)
		pool.refuse_every = 3;
	if (full != NULL)
		atomic_store(full, (uint64_t)64 << prng_below(&prng, 13));
	make_timer(&world, &prng);
	for (unsigned i = 0; i < ACTORS + PROBES; i++)
		actors[i] = (struct actor){ &world, prng_next(&prng) };
	let_live(&world, actors);
	CHECK_RC(hwt_timer_destroy(world.timer), 0);
	if (has_pool)
		pool_stop(&pool);
	lives = atomic_load(&world.taken);
	for (unsigned i = 0; i < lives; i++)
		check_law(&world.lives[i]);
	CHECK_INT(world.handed_out, ==, 0);
	CHECK_INT(world.hydras_accepted, ==, world.hydras_ran + world.hydras_handed_out);
	printf("#   %u timeouts, %llu runs of hydras, slowest probe %.1f ms\n", lives,
	       (unsigned long long)world.hydras_ran, (double)world.slowest_probe_ns / 1e6);
	free(world.lives);
}

TEST(row29_everything_keeps_the_law_and_nobody_starves)
{
	uint64_t seed = test_seed("everything_keeps");
	int64_t began_ns = hwt_now();

	refuses = dlsym(RTLD_DEFAULT, "hwt_test_mem_refuses");
	full = dlsym(RTLD_DEFAULT, "hwt_test_full");
	for (unsigned round = 0; round < ROUNDS && hwt_now() - began_ns < ENOUGH_NS; round++)
		one_round(seed, round);
}

static void *start_or_be_refused(void *arg)
{
	for (int i = 0; i < 3; i++) {
		int rc = hwt_timer_start(*(hwt_timer **)arg);

		CHECK(rc == 0 || rc == ECANCELED);
	}
	return NULL;
}

/* In another timer stop raced start: a worker was left behind, or the stop hung. */
TEST(row28_stop_races_start)
{
	unsigned rounds = scaled(500);

	for (unsigned round = 0; round < rounds; round++) {
		hwt_timer *timer = new_timer(HWT_MS(1), 64);
		struct crew crew;

		crew_start(&crew, 2, start_or_be_refused, &timer, 0);
		if (round % 2)
			sleep_ns(HWT_US(30));
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		CHECK_RC(hwt_timer_start(timer), ECANCELED);
		crew_join(&crew);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST_MAIN()
