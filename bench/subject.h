/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subject: a timer library behind one small table of functions.  This header is C and C++ and includes no other of
 * the bench, so that a rival can be built into an object of its own.
 *
 * To add a library, fill in the table in a file of its own and name it in subjects.c.  Either it is linked in, or it is
 * a shared object that exports its table, with its size, as `rival`, or a program of its own (see program.c for what it
 * prints).
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

/* Room for the name that a library has for a timeout. */
struct handle {
	void *pointer;
	uint64_t number;
};

struct subject_config {
	int64_t tick_ns;     /* for libraries that have ticks */
	int64_t constant_ns; /* the only delay that the run uses; 0: many delays */
	uint32_t buckets;    /* for libraries that have a wheel */
};

/* The task of all timeouts of a timer, called on one thread. */
typedef void subject_task(void *arg);

/* The rank of a subject: long scenarios leave out subjects of later ranks. */
enum subject_rank { RANK_OWN, RANK_MAIN, RANK_OTHER };

struct subject {
	size_t size; /* the size of this structure in the subject's build */
	const char *name;
	const char *(*version)(void);

	/* Creates and starts a timer; returns NULL on failure.  A process has one timer at a time. */
	void *(*init)(const struct subject_config *config, subject_task *task);

	/*
	 * Return 0 or an errno value.  out is never NULL.  schedule_at is on now_ns()'s clock; NULL: the library has
	 * none.
	 */
	int (*schedule)(void *timer, void *arg, int64_t delay_ns, struct handle *out);
	int (*schedule_at)(void *timer, void *arg, int64_t deadline_ns, struct handle *out);

	/* Returns 0 if the task will not run, otherwise the cancel came too late. */
	int (*cancel)(void *timer, struct handle *handle);

	/*
	 * Moves a pending timeout to delay_ns from now, with the same arg.  Returns 0, otherwise the move came too
	 * late.  NULL: the library has none.
	 */
	int (*reschedule)(void *timer, struct handle *handle, int64_t delay_ns);

	/*
	 * For a timer without a thread, in its caller's loop: runs due timeouts, and returns the time of the next work.
	 * NULL: the timer has a thread.
	 */
	int64_t (*advance)(void *timer, int64_t now_ns);

	/* Of a timer with `advance`: returns the time of the next work, which its loop asks for before it polls. */
	int64_t (*next)(void *timer);

	/* Stops and frees the timer.  Returns how many timeouts had neither run nor been cancelled. */
	uint64_t (*destroy)(void *timer);

	/* Returns how many timeouts it can hold; rows with more are cut down to that.  NULL: any number. */
	size_t (*pending_max)(void);
	size_t churn_max;       /* the most timeouts that a long run cancels at once; 0: any number */
	unsigned producers_max; /* 0: any number */
	enum subject_rank rank;
	const char *program; /* the path of a subject that is a program of its own and has no functions */
	const char *only;    /* the scenarios in which it takes part, " S1 S2 "; NULL: all */
};

#endif
