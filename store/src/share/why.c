/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why timeouts that are due have not started.  The rooms below say what each knows; here the reasons come together that
 * one of them cannot see: whether there is a thread, and whether this process may begin anything.
 */
#include "runs/begun.h"
#include "share/why.h"
#include "store/ability.h"
#include "store/shards.h"
#include "window/window.h"

/* What those wait for that their groups would let start. */
static const hwt_store_wait free_ones[] = { HWT_STORE_STARTS, HWT_STORE_WAITS_THREAD, HWT_STORE_WAITS_TURN,
					    HWT_STORE_WAITS_RULES, HWT_STORE_WAITS_READ };

void hwts_waits_of_kind(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits)
{
	hwt_store_wait why = hwts_ability_why(store);

	*waits = (struct hwts_waits){ { { .count = 0 } } };
	hwts_window_waits(store, kind, waits);
	if (hwts_begun_free(store, kind, 0) == 0)
		hwts_waits_move(waits, HWT_STORE_STARTS, HWT_STORE_WAITS_THREAD);
	else
		hwts_waits_move(waits, HWT_STORE_WAITS_TURN, HWT_STORE_STARTS);
	hwts_begun_waits(store, kind, waits);
	hwts_shards_waits(store, kind, waits);
	for (size_t i = 0; i < HWTS_COUNT(free_ones) && why != HWT_STORE_STARTS; i++)
		hwts_waits_move(waits, free_ones[i], why);
}
