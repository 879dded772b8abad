/* SPDX-License-Identifier: BSD-2-Clause */
/* Since when this process has failed to do what was to be done; ability.c. */
#ifndef HWTS_ABILITY_H
#define HWTS_ABILITY_H

#include "rows/engine.h"

struct hwts_ability {
	int64_t since_ns[HWTS_TASK + 1]; /* hwt_now() of the first failure behind the last success; 0: it is able */
	int64_t failed_ns;               /* the last failure */
	int64_t until_ns, pause_ns;      /* until then it wants no shard that another process can have; for how long */
	bool lacks;                      /* what the last renewal has said */
	bool away;                       /* the last renewal has found no database that it could write to */
};

/* With the lock. */
void hwts_ability_note(hwt_store *store, enum hwts_role role, bool ok); /* an exchange has come to its end */
bool hwts_ability_judge(hwt_store *store, bool *told);                  /* by control; told: it is new */
bool hwts_ability_lacks(const hwt_store *store);
void hwts_ability_forget(hwt_store *store);
void hwts_ability_away(hwt_store *store, bool away);
/* It begins nothing at all, or of kinds whose runs are in transactions: LEASE, DATABASE; else STARTS. */
hwt_store_wait hwts_ability_why(const hwt_store *store, bool transactions);

#endif
