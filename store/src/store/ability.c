/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether this process is able to do its work.  Control may renew the lease for days on the connection that it has,
 * while no other connection can be made (the server has none left, the password was changed), or while other
 * connections may not do what they are for (the role has lost a right).  No row would run then in the shards that are
 * held.
 *
 * After a lease of failures without a success the process leaves its kinds to processes that are able: it is no longer
 * counted among those that share the kinds, and gives its shards.  Where there is no other process it keeps them.
 * After a pause it takes part again.  The next failure ends that at once, with a pause of twice the length.
 *
 * While the database is away, no process can judge itself.  So all notes are dropped when the lease or the connection
 * of control is lost.
 */
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/store.h"

#define PAUSES_MAX 64 /* in leases */

static bool fails(const hwt_store *store)
{
	for (size_t i = 0; i < HWTS_COUNT(store->ability->since_ns); i++)
		if (store->ability->since_ns[i] && hwt_now() - store->ability->since_ns[i] >= store->config.lease_ns)
			return true;
	return false;
}

void hwts_ability_note(hwt_store *store, enum hwts_role role, bool ok)
{
	struct hwts_ability *ability = store->ability;

	if (ok) {
		ability->since_ns[role] = 0;
		return;
	}
	ability->failed_ns = hwt_now();
	if (ability->since_ns[role] == 0)
		ability->since_ns[role] = ability->failed_ns;
	if (!fails(store) || ability->failed_ns < ability->until_ns)
		return;
	hwts_ask(store, HWTS_LOOK);
	hwts_poke(store);
}

bool hwts_ability_judge(hwt_store *store, bool *told)
{
	struct hwts_ability *ability = store->ability;
	int64_t now_ns = hwt_now(), lease_ns = store->config.lease_ns;

	*told = false;
	if (!fails(store)) {
		ability->until_ns = ability->pause_ns = 0;
	} else if (ability->failed_ns >= ability->until_ns) {
		*told = ability->pause_ns == 0;
		ability->pause_ns = HWTS_MAX(HWTS_MIN(2 * ability->pause_ns, PAUSES_MAX * lease_ns), lease_ns);
		ability->until_ns = now_ns + ability->pause_ns;
	}
	ability->lacks = now_ns < ability->until_ns;
	return ability->lacks;
}

bool hwts_ability_lacks(const hwt_store *store)
{
	return store->ability->lacks;
}

void hwts_ability_forget(hwt_store *store)
{
	*store->ability = (struct hwts_ability){ .failed_ns = 0 };
}

void hwts_ability_away(hwt_store *store, bool away)
{
	store->ability->away = away;
}

hwt_store_wait hwts_ability_why(const hwt_store *store, bool transactions)
{
	const struct hwts_ability *ability = store->ability;

	if (hwts_phase(store) != HWTS_STARTED)
		return HWT_STORE_STARTS;
	if (!hwts_trusted(store))
		return ability->away ? HWT_STORE_WAITS_DATABASE : HWT_STORE_WAITS_LEASE;
	return ability->since_ns[HWTS_BEGIN] || (transactions && ability->since_ns[HWTS_TASK])
		   ? HWT_STORE_WAITS_DATABASE
		   : HWT_STORE_STARTS;
}
