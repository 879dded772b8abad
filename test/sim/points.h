/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before each source of the library that the simulation runs.  It makes each atomic access a point at which
 * another actor may go on: the macro of the memory order is evaluated before the access.
 */
#ifndef HWT_SIM_POINTS_H
#define HWT_SIM_POINTS_H

#include <stdatomic.h>

void sim_point(const char *where);

#define memory_order_relaxed (sim_point(__func__), memory_order_relaxed)
#define memory_order_acquire (sim_point(__func__), memory_order_acquire)
#define memory_order_release (sim_point(__func__), memory_order_release)
#define memory_order_acq_rel (sim_point(__func__), memory_order_acq_rel)
#define memory_order_seq_cst (sim_point(__func__), memory_order_seq_cst)

/* For Concurrency Kit's list and lock (queue.h). */
#undef __ATOMIC_ACQUIRE
#undef __ATOMIC_RELEASE
#define __ATOMIC_ACQUIRE (sim_point(__func__), 2)
#define __ATOMIC_RELEASE (sim_point(__func__), 3)

#endif
