/* SPDX-License-Identifier: BSD-2-Clause */
/* Included before each source of the store: puts thread-local variables into one section, which actors swap. */
#ifndef HWTS_SIM_OWN_H
#define HWTS_SIM_OWN_H

#define _Thread_local __attribute__((section("sim_own")))

#endif
