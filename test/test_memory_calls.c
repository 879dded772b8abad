/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No allocation in steady state: this program puts its own malloc and mmap in front of libc's, for the library as well,
 * and counts what is called behind hwt_new_timeout and hwt_cancel.  Its free may change errno, as that of older
 * systems does.
 *
 * Not under a sanitizer, which has put its own there already, and only with glibc, whose own functions are called
 * behind.
 */
#include "support.h"

#if SANITIZED || !defined(__GLIBC__)

int main(void)
{
	printf("1..0 # SKIP malloc cannot be replaced here\n");
	return 0;
}

#else

#include <sys/mman.h>
#include <sys/syscall.h>

#define HOUR_NS HWT_S(3600)
#define TICK_NS HWT_MS(1)

/* Calls on this thread while `counting`; and in the process. */
static _Thread_local bool counting;
static _Thread_local unsigned calls;
static atomic_uint all_calls;

/* free leaves errno changed, on this thread. */
static _Thread_local bool spoiling;
static _Thread_local unsigned spoilt;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static void count_call(void)
{
	calls += counting;
	atomic_fetch_add_explicit(&all_calls, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
	count_call();
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	count_call();
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	count_call();
	return __libc_realloc(old, size);
}

void free(void *memory)
{
	__libc_free(memory);
	if (spoiling) {
		spoilt++;
		errno = EBADMSG;
	}
}

void *memalign(size_t alignment, size_t size);

void *memalign(size_t alignment, size_t size)
{
	count_call();
	return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
	void *memory = memalign(alignment, size);

	if (!memory)
		return ENOMEM;
	*out = memory;
	return 0;
}

void *mmap(void *wish, size_t length, int protection, int flags, int fd, off_t offset)
{
	count_call();
	return (void *)syscall(SYS_mmap, wish, length, protection, flags, fd, offset);
}

struct filler {
	hwt_timer *timer;
	hwt_timeout *timeouts;
	unsigned count, calls;
};

static void fill(const struct filler *filler)
{
	counting = true;
	for (unsigned i = 0; i < filler->count; i++)
		CHECK_INT(hwt_new_timeout(filler->timer, count_task, NULL, HOUR_NS, &filler->timeouts[i]), ==, 0);
	counting = false;
}

static void empty(const struct filler *filler)
{
	counting = true;
	for (unsigned i = 0; i < filler->count; i++)
		CHECK_INT(hwt_cancel(filler->timeouts[i]), ==, 0);
	counting = false;
}

/* Schedules and cancels; returns how many allocations that made on this thread. */
static unsigned fill_and_empty(const struct filler *filler)
{
	unsigned before = calls;

	fill(filler);
	empty(filler);
	return calls - before;
}

struct gate {
	atomic_uint entered, open, left;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
	atomic_store(&gate->entered, 1);
	CHECK(wait_count(&gate->open, 1));
	atomic_store(&gate->left, 1);
}

/* Does it while the worker is held up, so that nothing is taken from the queues before all of it is there. */
static void behind_a_gate(const struct filler *filler, void (*act)(const struct filler *))
{
	struct gate gate = { .open = 0 };

	REQUIRE(hwt_new_timeout(filler->timer, gate_task, &gate, 0, NULL) == 0);
	REQUIRE(wait_count(&gate.entered, 1));
	act(filler);
	atomic_store(&gate.open, 1);
	REQUIRE(wait_count(&gate.left, 1));
	wait_ticks(filler->timer, 3, TICK_NS);
}

static struct filler new_filler(unsigned count)
{
	struct filler filler = { new_timer(TICK_NS, 512), calloc(count, sizeof(*filler.timeouts)), count, 0 };

	REQUIRE(filler.timeouts);
	return filler;
}

static void drop_filler(struct filler *filler)
{
	CHECK_RC(hwt_timer_destroy(filler->timer), 0);
	free(filler->timeouts);
}

/* The counting counts. */
TEST(the_hook_sees_each_allocation)
{
	struct filler filler = new_filler(50000);

	CHECK_INT(fill_and_empty(&filler), >, 0); /* records for 50,000 come from somewhere */
	drop_filler(&filler);
}

TEST(nothing_is_allocated_once_as_many_have_been_pending)
{
	enum { ROUNDS = 30 };
	struct filler filler = new_filler(30000);
	unsigned all;

	/* As many as ever: in the queue of new ones, pending, in the queue of cancelled ones. */
	behind_a_gate(&filler, fill);
	behind_a_gate(&filler, empty);
	all = atomic_load(&all_calls);
	for (int round = 0; round < ROUNDS; round++) {
		filler.count = (unsigned)(round % 3 + 1) * 10000;
		CHECK_INT(fill_and_empty(&filler), ==, 0);
		wait_ticks(filler.timer, 3, TICK_NS);
	}
	printf("# %u allocations of the worker in %d rounds\n", atomic_load(&all_calls) - all, ROUNDS);
	drop_filler(&filler);
}

static void *fill_thread(void *arg)
{
	struct filler *filler = arg;

	filler->calls += fill_and_empty(filler);
	return NULL;
}

/*
 * Another thread uses what others have left.  It may need a few blocks for queues of its own, but each of them serves
 * thousands: nothing is allocated for each timeout.
 */
TEST(other_threads_allocate_little)
{
	enum { THREADS = 40 };
	struct filler filler = new_filler(30000);

	for (int pass = 0; pass < 2; pass++) {
		filler.calls = 0;
		for (int i = 0; i < THREADS; i++) {
			crew_run(1, fill_thread, &filler, 0);
			wait_ticks(filler.timer, 3, TICK_NS);
		}
		printf("# %u calls on %d threads\n", filler.calls, THREADS);
		CHECK_INT(filler.calls, <=, 40 * THREADS);
	}
	drop_filler(&filler);
}

static unsigned chain_calls;

struct chain {
	atomic_uint ran;
	unsigned rest;
};

/* Re-arms itself, after a warm-up without an allocation. */
static void chain_task(hwt_timeout timeout, void *arg)
{
	struct chain *chain = arg;
	unsigned before = calls;
	int rc = 0;

	counting = chain->rest < 100;
	if (chain->rest-- > 0)
		rc = hwt_new_timeout(hwt_timeout_timer(timeout), chain_task, arg, 0, NULL);
	counting = false;
	CHECK_INT(rc, ==, 0);
	chain_calls += calls - before;
	if (chain->rest == 0)
		atomic_store(&chain->ran, 1);
}

TEST(a_task_that_rearms_itself_allocates_nothing)
{
	hwt_timer *timer = new_timer(TICK_NS, 8);
	struct chain chain = { .rest = 300 };

	CHECK_RC(hwt_new_timeout(timer, chain_task, &chain, 0, NULL), 0);
	CHECK(wait_count(&chain.ran, 1));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(chain_calls, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Stop allocates nothing, and neither does collecting what it returns. */
TEST(stop_allocates_nothing)
{
	struct filler filler = new_filler(5000);
	hwt_unprocessed left;
	size_t count = 0, collected = 0;
	unsigned before;

	for (unsigned i = 0; i < filler.count; i++)
		CHECK_RC(hwt_new_timeout(filler.timer, count_task, NULL, HOUR_NS, NULL), 0);
	before = atomic_load(&all_calls);
	CHECK_RC(hwt_timer_stop(filler.timer, &count), 0);
	while (collected <= filler.count && hwt_timer_next_unprocessed(filler.timer, &left))
		collected++;
	CHECK_INT(count, ==, filler.count);
	CHECK_INT(collected, ==, filler.count);
	before = atomic_load(&all_calls) - before;
	printf("# %u allocations in the process during stop\n", before); /* the worker may have been placing */
	drop_filler(&filler);
}

/* Also what a call frees leaves errno alone. */
TEST(a_free_that_changes_errno_changes_none_of_the_callers)
{
	struct filler filler = new_filler(1000);

	fill(&filler);
	spoiling = true;
	CHECK_RC(hwt_timer_stop(filler.timer, NULL), 0);
	CHECK_RC(hwt_timer_destroy(filler.timer), 0);
	spoiling = false;
	CHECK_INT(spoilt, >, 0);
	free(filler.timeouts);
}

TEST_MAIN()
#endif
