/* SPDX-License-Identifier: BSD-2-Clause */
/* Since when this process has failed at its work; ability.c. */
#ifndef HWTS_ABILITY_H
#define HWTS_ABILITY_H

#include "rows/engine.h"

struct hwts_ability {
	int64_t since_ns[HWTS_TASK + 1]; /* hwt_now() of the first failure after the last success; 0: able */
	int64_t failed_ns;               /* hwt_now() of the last failure */
	/* Until when this process wants no shard that another can have; how long that pause is. */
	int64_t until_ns, pause_ns;
	bool lacks; /* hwts_ability_judge said so at the last renewal */
	bool away;  /* the last renewal found no database that can be written to */
};

/* The caller holds store->lock. */
void hwts_ability_note(hwt_store *store, enum hwts_role role, bool ok); /* after each exchange */
bool hwts_ability_judge(hwt_store *store, bool *told); /* called by control; told: lacks is new, and worth a warning */
bool hwts_ability_lacks(const hwt_store *store);
void hwts_ability_forget(hwt_store *store);
void hwts_ability_away(hwt_store *store, bool away);
/*
 * LEASE or DATABASE: this process begins no row at all (transactions: none whose run is in a transaction).  Otherwise
 * STARTS.
 */
hwt_store_wait hwts_ability_why(const hwt_store *store, bool transactions);

#endif
