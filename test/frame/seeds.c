/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the seeds of a table, and others; frame.h. */
#include "sim.h"

#include <time.h>

static unsigned number_in(const char *name, unsigned otherwise)
{
	const char *wish = getenv(name);

	return wish != NULL ? (unsigned)strtoul(wish, NULL, 0) : otherwise;
}

static int64_t real_ns(void)
{
	struct timespec now;

	(void)timespec_get(&now, TIME_UTC);
	return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * Returns the first seed.  A run for a number of seconds searches with new seeds; other runs use the same seeds each
 * time.
 */
static uint64_t first_seed(bool searches)
{
	const char *wish = getenv("HWT_SEED");

	return wish != NULL ? strtoull(wish, NULL, 0) : searches ? (uint64_t)real_ns() / 1000 : 1000000;
}

bool sim_run_seeds(void (*scenario)(void), unsigned others, const struct sim_known *known, size_t known_count)
{
	int64_t begin_ns = real_ns();
	int64_t end_ns = begin_ns + (int64_t)number_in("HWT_SIM_SECONDS", 0) * INT64_C(1000000000);
	uint64_t seed = first_seed(end_ns > begin_ns);
	unsigned scaled = 1 + others * number_in("HWT_SCALE", 100) / 100, run = 0;
	unsigned count = end_ns > begin_ns ? UINT32_MAX : number_in("HWT_SIM_SEEDS", scaled);
	bool passed = true;

	for (size_t i = 0; i < known_count && passed; i++)
		passed = known[i].scenario != scenario || sim_run_seed(scenario, known[i].seed);
	for (; run < count && passed && (run == 0 || end_ns == begin_ns || real_ns() < end_ns); run++)
		passed = sim_run_seed(scenario, seed + run);
	sim_say_sum(run, seed, (double)(real_ns() - begin_ns) / 1e9);
	return passed;
}
