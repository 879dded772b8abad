/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a store, for tests that look inside. */
#ifndef HWT_TEST_INSIDE_H
#define HWT_TEST_INSIDE_H

#include "ahead/ahead.h"
#include "runs/ender.h"
#include "runs/pulled.h"
#include "runs/begun.h"
#include "runs/poll.h"
#include "share/share.h"
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/commit.h"
#include "store/kind.h"
#include "store/numbers.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "store/which.h"
#include "window/window.h"

static inline int64_t unlock_with(hwt_store *store, int64_t value)
{
	hwts_unlock(store);
	return value;
}

/* Reads a number under the lock of a store. */
#define LOCKED(store, value) (hwts_lock(store), unlock_with(store, (int64_t)(value)))

/* Counts how often threads of stores pass a point, from this call on until hwts_test_at is changed. */
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

/* Waits until the store has read all shards that it holds, except for rests. */
#define WAIT_READ(store) WAIT_FOR(LOCKED(store, !(store)->reading->unread))

#endif
