/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coroutines, which play threads: of all of them one runs, until it switches to another one.
 *
 * A context brings a coroutine to its stack; later switches are jumps, which need no system call.  One of zero bytes is
 * whoever switches from it first, on the stack that it has.
 */
#ifndef HWT_FRAME_COROUTINE_H
#define HWT_FRAME_COROUTINE_H

#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

#define COROUTINE_STACK ((size_t)256 << 10)

struct coroutine {
	jmp_buf place;      /* where it goes on */
	void (*main)(void); /* where it begins: never returns.  NULL: it has begun */
	char *stack;        /* stays, for others */
};

static inline void coroutine_begin(struct coroutine *self)
{
	ucontext_t context;
	void (*main)(void) = self->main;

	if (self->stack == NULL)
		self->stack = malloc(COROUTINE_STACK);
	if (self->stack == NULL || getcontext(&context) != 0)
		abort();
	self->main = NULL;
	context.uc_stack.ss_sp = self->stack;
	context.uc_stack.ss_size = COROUTINE_STACK;
	context.uc_link = NULL;
	makecontext(&context, main, 0);
	setcontext(&context);
}

/* Comes back when another one switches to `from`. */
static inline void coroutine_switch(struct coroutine *from, struct coroutine *to)
{
	if (_setjmp(from->place) != 0)
		return;
	if (to->main != NULL)
		coroutine_begin(to);
	_longjmp(to->place, 1);
}

#endif
