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
#include "core/life.h"
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

#endif
