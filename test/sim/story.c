/* SPDX-License-Identifier: BSD-2-Clause */
/* The story: the steps of actors, remembered as numbers and told in words; sim.h. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

#define STORY ((size_t)1 << 14) /* steps that are remembered */
#define SAYINGS ((size_t)1 << 11)
#define LINES 60 /* turns that are told */

struct said {
	char name[32]; /* the actor's name; another actor may have its place by now */
	const char *format;
	long a, b;
	uint64_t step;
	int64_t now_ns;
};

static struct {
	const char *name, *where;
	int64_t now_ns;
} story[STORY];

static struct said sayings[SAYINGS];
static uint64_t said;
static uint64_t latest;

void sim_remember(uint64_t step, const char *name, const char *where, int64_t now_ns)
{
	story[step % STORY].name = name;
	story[step % STORY].where = where;
	story[step % STORY].now_ns = now_ns;
	latest = step;
}

void sim_say(const char *format, long a, long b)
{
	struct said *saying = &sayings[said++ % SAYINGS];

	*saying = (struct said){ .format = format, .a = a, .b = b, .step = latest, .now_ns = sim_now() };
	(void)snprintf(saying->name, sizeof(saying->name), "%s", sim_name());
}

static void tell_time(int64_t ns, const char *name)
{
	fprintf(stderr, "# %13.6f ms  %s", (double)ns / 1e6, name);
}

static void tell_saying(const struct said *saying, int64_t start_ns)
{
	tell_time(saying->now_ns - start_ns, saying->name);
	fprintf(stderr, " -- ");
	fprintf(stderr, saying->format, saying->a, saying->b);
	fprintf(stderr, "\n");
}

/* Tells what was said from the first step of a turn to its last. */
static void tell_sayings(uint64_t first, uint64_t last, int64_t start_ns)
{
	for (uint64_t i = said > SAYINGS ? said - SAYINGS : 0; i < said; i++)
		if (sayings[i % SAYINGS].step >= first && sayings[i % SAYINGS].step < last)
			tell_saying(&sayings[i % SAYINGS], start_ns);
}

/* Prints the steps of a turn from step i on, without those just told.  Returns the first step of the next turn. */
static uint64_t tell_turn(uint64_t i, uint64_t steps, int64_t start_ns)
{
	const char *name = story[i % STORY].name, *last[16] = { NULL };
	unsigned told = 0, back;

	tell_time(story[i % STORY].now_ns - start_ns, name);
	fprintf(stderr, ":");
	for (; i < steps && story[i % STORY].name == name; i++) {
		for (back = 0; back < 16 && last[back] != story[i % STORY].where; back++)
			;
		if (back == 16)
			fprintf(stderr, " %s,", last[told++ % 16] = story[i % STORY].where);
	}
	fprintf(stderr, "\n");
	return i;
}

void sim_tell_story(uint64_t steps, int64_t start_ns)
{
	const char *wish = getenv("HWT_SIM_TURNS");
	unsigned long turns = wish != NULL ? strtoul(wish, NULL, 0) : LINES;
	uint64_t first = steps > STORY ? steps - STORY : 0, i = steps, next;

	while (i > first && turns > 0)
		if (--i == first || story[(i - 1) % STORY].name != story[i % STORY].name)
			turns--;
	fprintf(stderr, "# what was done before, in short:\n");
	tell_sayings(0, i, start_ns);
	fprintf(stderr, "# the last turns of %llu steps:\n", (unsigned long long)steps);
	for (; i < steps; i = next) {
		next = tell_turn(i, steps, start_ns);
		tell_sayings(i, next, start_ns);
	}
}
