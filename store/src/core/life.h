/* SPDX-License-Identifier: BSD-2-Clause */
/* The phases of a store, from start to stop. */
#ifndef HWTS_LIFE_H
#define HWTS_LIFE_H

#include "core/engine.h"

enum hwts_phase { HWTS_STOPPED, HWTS_STARTED, HWTS_STOPPING };

struct hwts_life {
	pthread_mutex_t lock; /* start, stop, register: one at a time */
	enum hwts_phase phase;
	pthread_t stopper; /* of a stop that need not come to its end, hwt_store_stop_within; with this lock */
	bool has_stopper, stopper_done;
};

enum hwts_phase hwts_phase(const hwt_store *store); /* with the store's lock */
void hwts_phase_set(hwt_store *store, enum hwts_phase phase);

#endif
