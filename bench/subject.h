/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subject: a timer library behind one small table of functions.  C and C++, and nothing else of the bench, so that a
 * rival can be built into an object of its own.
 *
 * To add a library, fill in the table in a file of its own and name it in subjects.c.  Either it is linked in, or it is
 * a shared object that exports its table, with its size, as `rival`, or a program of its own (see program.c for what it
 * prints).
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

/* Room for whatever a library names a timeout by. */
struct handle {
	void *pointer;
	uint64_t number;
};

struct subject_config {
	int64_t tick_ns;     /* for libraries that have ticks */
	int64_t constant_ns; /* the one delay that is going to be used, 0 if there are many */
	uint32_t buckets;    /* for libraries that have a wheel */
};

/* What a timer runs, one and the same for all its timeouts, on one thread. */
typedef void subject_task(void *arg);

/* The rank of a subject: long scenarios leave out those behind some rank. */
enum subject_rank { RANK_OWN, RANK_MAIN, RANK_OTHER };

struct subject {
	size_t size; /* of this structure, in the version that the subject was built with */
	const char *name;
	const char *(*version)(void);

	/* Creates and starts a timer; NULL when that fails.  A process has one at a time. */
	void *(*init)(const struct subject_config *config, subject_task *task);

	/* 0 or an errno value.  out is never NULL.  schedule_at is on now_ns()'s clock; NULL: the library has none. */
	int (*schedule)(void *timer, void *arg, int64_t delay_ns, struct handle *out);
	int (*schedule_at)(void *timer, void *arg, int64_t deadline_ns, struct handle *out);

	/* 0: the task will not run.  Anything else: too late. */
	int (*cancel)(void *timer, struct handle *handle);

	/* Moves a pending one to delay_ns from now; it keeps its arg.  0, or too late.  NULL: the library has none. */
	int (*reschedule)(void *timer, struct handle *handle, int64_t delay_ns);

	/*
	 * For a timer in the loop of its caller, which has no thread: runs what is due, and returns when there is
	 * something next.  NULL: it has a thread.
	 */
	int64_t (*advance)(void *timer, int64_t now_ns);

	/* Stops and frees the timer.  Returns how many timeouts had neither run nor been cancelled. */
	uint64_t (*destroy)(void *timer);

	/* How many it can hold, where that is few: rows are cut down to it.  NULL: any number. */
	size_t (*pending_max)(void);
	size_t churn_max;       /* the same for what a long run cancels at once; 0: any number */
	unsigned producers_max; /* 0: any number */
	enum subject_rank rank;
	const char *program; /* its path, for one that is a program of its own: then there are no functions */
	const char *only;    /* scenarios that it takes part in, " S1 S2 "; NULL: all */
};

#endif
