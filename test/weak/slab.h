/* SPDX-License-Identifier: BSD-2-Clause */
/* For the harnesses: the only slab, with a few records. */
#ifndef HWT_WEAK_SLAB_H
#define HWT_WEAK_SLAB_H

#include "weak.h"

#define WEAK_SLAB
#include "base/record.h"

struct hwt_record_slab;

static inline uintptr_t record_slab_base(const struct hwt_record *record);
static inline struct hwt_record_slab *record_slab_of(const struct hwt_record *record);
static inline char *record_slab_begin(const struct hwt_record_slab *slab);

#include "lane/record_slab.h"

static struct hwt_record records[3];
static struct hwt_record_slab slab;

static inline uintptr_t record_slab_base(const struct hwt_record *record)
{
	(void)record;
	return (uintptr_t)records;
}

static inline struct hwt_record_slab *record_slab_of(const struct hwt_record *record)
{
	(void)record;
	return &slab;
}

static inline char *record_slab_begin(const struct hwt_record_slab *unused)
{
	(void)unused;
	return (char *)records;
}

/* Makes the slab, with `n` records that never served. */
static inline void slab_make(struct hwt_record_slabs *slabs, unsigned n)
{
	slab.slabs = slabs;
	atomic_init(&slab.span, n * (uint32_t)sizeof(struct hwt_record));
	atomic_init(&slabs->newest, &slab);
}

/* Returns the only record that has come home. */
static inline struct hwt_record *slab_home(void)
{
	struct hwt_record *first = NULL;
	uint32_t count = record_slab_take_home(&slab, &first);

	assert(count == 1);
	return first;
}

#endif
