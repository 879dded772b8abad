/* SPDX-License-Identifier: BSD-2-Clause */
/* All parts of a store, for tests that look inside. */
#ifndef HWT_TEST_INSIDE_H
#define HWT_TEST_INSIDE_H

#include "core/ability.h"
#include "core/ahead.h"
#include "core/asks.h"
#include "core/clock.h"
#include "core/share.h"
#include "core/ender.h"
#include "core/group.h"
#include "core/kind.h"
#include "core/numbers.h"
#include "core/pool.h"
#include "core/pulled.h"
#include "core/queue.h"
#include "core/ready.h"
#include "core/run.h"
#include "core/shards.h"
#include "core/store.h"
#include "core/which.h"
#include "core/window.h"

static inline int64_t unlock_with(hwt_store *store, int64_t value)
{
	hwts_unlock(store);
	return value;
}

/* A number that the lock of a store guards. */
#define LOCKED(store, value) (hwts_lock(store), unlock_with(store, (int64_t)(value)))

/* How often threads of stores have come by a point, from this call on until hwts_test_at is another's. */
static atomic_uint passes;
static const char *_Atomic counted;

static inline void count_pass(const char *where)
{
	atomic_fetch_add(&passes, strcmp(where, atomic_load(&counted)) == 0);
}

static inline void count_passes(const char *point)
{
	atomic_store(&counted, point);
	atomic_store(&passes, 0);
	atomic_store(&hwts_test_at, count_pass);
}

/* Until it has read all that it holds, but for rests. */
#define WAIT_READ(store) WAIT_FOR(LOCKED(store, !(store)->reading->unread))

#endif
