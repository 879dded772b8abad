/* SPDX-License-Identifier: BSD-2-Clause */
/* The price of a pending timeout, record, queue and wheel taken together, in resident bytes. */
#include "support.h"

#include <malloc.h>

#define TICK_NS HWT_MS(1)
#define MIB (INT64_C(1) << 20)

/* Returns the resident bytes, after libc has given its free memory back. */
static int64_t resident(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
	return rss_bytes();
}

TEST(a_pending_timeout_takes_at_most_80_bytes)
{
	unsigned count = 1000000; /* with fewer, slabs would dominate the result */
	hwt_timer *timer = new_timer(TICK_NS, 512);
	struct prng prng = { 1 };
	int64_t before, after;

	wait_ticks(timer, 3, TICK_NS);
	before = resident();
	for (unsigned i = 0; i < count; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3600) + (int64_t)prng_below(&prng, HWT_S(3600)),
					 NULL),
			 0);
	wait_ticks(timer, 3, TICK_NS);
	CHECK_INT(hwt_pending_timeouts(timer), ==, count);
	after = resident();
	CHECK_RC(hwt_timer_destroy(timer), 0);
	if (SANITIZED || before < 0 || after < 0)
		SKIP("resident bytes are not the library's alone, or not known");
	printf("# %.1f bytes a timeout\n", (double)(after - before) / count);
	/* The 6 MiB are for the slabs that have just been begun: one of records, one of nodes, one of buckets. */
	CHECK_INT(after - before, <=, 80 * (int64_t)count + 6 * MIB);
}

TEST_MAIN()
