/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the story of a seed that fails shorter: leaves out as many calls of actors and ends of turns as it can while
 * the same check still fails; sim.h.  First it tries halves, then quarters, down to single ones.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define TRIES 3000
#define SECONDS 15

static struct sim_report *report;
static char failed[sizeof(report->what)];
static unsigned tries;
static time_t until;

struct sim_report *sim_new_report(void)
{
	struct sim_report *new = mmap(NULL, sizeof(*new), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return new == MAP_FAILED ? NULL : new;
}

void sim_free_report(struct sim_report *old)
{
	(void)munmap(old, sizeof(*old));
}

static bool still_fails(void (*scenario)(void), uint64_t seed)
{
	tries++;
	return !sim_run(scenario, seed, report) && strcmp(report->what, failed) == 0;
}

/* Leaves out `count` of the numbers that are not left out yet, from `from` on.  Returns the number behind them. */
static uint64_t leave_out(uint64_t *set, const uint64_t *made, uint64_t from, uint64_t count)
{
	for (; from < SIM_SET && count > 0; from++)
		if (sim_has(made, from) && !sim_has(set, from)) {
			set[from / 64] |= UINT64_C(1) << from % 64;
			count--;
		}
	return from;
}

static uint64_t count_left(const uint64_t *set, const uint64_t *made)
{
	uint64_t left = 0;

	for (uint64_t i = 0; i < SIM_SET; i++)
		left += sim_has(made, i) && !sim_has(set, i);
	return left;
}

/* Shrinks a set.  Numbers that are left out stay left out. */
static void shrink_set(void (*scenario)(void), uint64_t seed, uint64_t *set, const uint64_t *made)
{
	static uint64_t before[SIM_SET / 64];

	for (uint64_t part = (count_left(set, made) + 1) / 2; part > 0; part /= 2)
		for (uint64_t from = 0; from < SIM_SET && tries < TRIES && time(NULL) < until;) {
			memcpy(before, set, sizeof(before));
			from = leave_out(set, made, from, part);
			if (memcmp(before, set, sizeof(before)) != 0 && !still_fails(scenario, seed))
				memcpy(set, before, sizeof(before));
		}
}

void sim_shrink(void (*scenario)(void), uint64_t seed, struct sim_report *of)
{
	static const uint64_t none[SIM_SET / 64];
	static uint64_t made[SIM_SET / 64], ended[SIM_SET / 64];

	report = of;
	tries = 0;
	until = time(NULL) + SECONDS;
	(void)snprintf(failed, sizeof(failed), "%s", of->what);
	memcpy(made, of->made, sizeof(made));
	memset(ended, 0, sizeof(ended));
	for (uint64_t i = 0; i < of->turns && i < SIM_SET; i++)
		ended[i / 64] |= UINT64_C(1) << i % 64;
	report->is_quiet = true;
	for (unsigned round = 0; round < 2; round++) {
		shrink_set(scenario, seed, report->no_calls, made);
		shrink_set(scenario, seed, report->no_turns, ended);
	}
	report->is_quiet = false;
	fprintf(stderr, "# after %u tries: %llu of %llu calls, %llu of %llu ends of turns\n", tries,
		(unsigned long long)count_left(report->no_calls, made), (unsigned long long)count_left(none, made),
		(unsigned long long)count_left(report->no_turns, ended), (unsigned long long)count_left(none, ended));
	(void)sim_run(scenario, seed, report);
	fprintf(stderr, "# again: HWT_SEED=%llu HWT_SIM_SEEDS=1\n", (unsigned long long)seed);
}
