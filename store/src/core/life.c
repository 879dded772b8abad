/* SPDX-License-Identifier: BSD-2-Clause */
/* The phases of a store. */
#include "core/life.h"
#include "core/ready.h"
#include "core/store.h"

enum hwts_phase hwts_phase(const hwt_store *store)
{
	return store->life->phase;
}

void hwts_phase_set(hwt_store *store, enum hwts_phase phase)
{
	store->life->phase = phase;
	hwts_ready_start(store, phase == HWTS_STARTED);
}
