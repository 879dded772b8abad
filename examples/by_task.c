/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where does all of that come from?  The pending timeouts of a timer by their task, most first, with the name of the
 * function.
 *
 *     $ build/examples/by_task
 *     200000 pending, next in    1.0 s: give_up
 *       1000 pending, next in    0.5 s: beat
 *          1 pending, next in 3600.0 s: rotate
 *
 * dladdr knows names that are exported: link with -rdynamic, and do not make tasks static.  share/gdb/hwt-gdb.py shows
 * the same in gdb, and knows all names.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <hwt.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define TASKS 64

struct by_task {
	hwt_task *task;
	unsigned long count;
	int64_t next_ns;
};

struct table {
	struct by_task rows[TASKS]; /* the last one has all further tasks, as NULL */
	size_t count;
};

static bool add(void *ctx, const hwt_pending *pending)
{
	struct table *table = ctx;
	size_t i = 0;

	while (i < table->count && table->rows[i].task != pending->task)
		i++;
	if (i == TASKS)
		i = TASKS - 1;
	else if (i == table->count)
		table->rows[table->count++] =
		    (struct by_task){ i < TASKS - 1 ? pending->task : NULL, 0, pending->deadline_ns };
	table->rows[i].count++;
	if (pending->deadline_ns < table->rows[i].next_ns)
		table->rows[i].next_ns = pending->deadline_ns;
	return true;
}

static int most_first(const void *a, const void *b)
{
	unsigned long first = ((const struct by_task *)a)->count, second = ((const struct by_task *)b)->count;

	return (first < second) - (first > second);
}

static void print_by_task(hwt_timer *timer, int64_t now_ns)
{
	struct table table = { .count = 0 };

	hwt_timer_each(timer, add, &table);
	qsort(table.rows, table.count, sizeof(table.rows[0]), most_first);
	for (size_t i = 0; i < table.count; i++) {
		const struct by_task *row = &table.rows[i];
		Dl_info info = { .dli_sname = NULL };

		if (row->task != NULL)
			(void)dladdr(__extension__(void *) row->task, &info);
		printf("%6lu pending, next in %6.1f s: %s\n", row->count, (double)(row->next_ns - now_ns) / 1e9,
		       info.dli_sname != NULL ? info.dli_sname : "(no name)");
	}
}

/* Not static: see the top. */
hwt_task give_up, beat, rotate;

void give_up(hwt_timeout timeout, void *arg)
{
	(void)timeout, (void)arg;
}

void beat(hwt_timeout timeout, void *arg)
{
	(void)timeout, (void)arg;
}

void rotate(hwt_timeout timeout, void *arg)
{
	(void)timeout, (void)arg;
}

int main(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	int rc;

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK; /* so that it prints the same each time */
	rc = hwt_timer_create(&timer, &config);
	for (int i = 0; i < 200000 && rc == 0; i++)
		rc = hwt_new_timeout(timer, give_up, NULL, HWT_MS(1000 + i), NULL);
	for (int i = 0; i < 1000 && rc == 0; i++)
		rc = hwt_new_periodic(timer, beat, NULL, HWT_MS(500 + i), HWT_S(10), NULL);
	if (rc == 0)
		rc = hwt_new_timeout(timer, rotate, NULL, HWT_S(3600), NULL);
	if (rc == 0)
		print_by_task(timer, 0);
	return hwt_timer_destroy(timer) != 0 || rc != 0;
}
