/* SPDX-License-Identifier: BSD-2-Clause */
/* A look for unused memory; look.c argues. */
#ifndef HWT_LOOK_H
#define HWT_LOOK_H

#include "lane/lane.h"

/* Where a look stands. */
struct hwt_look {
	struct hwt_lanes *lanes;
	unsigned phase;               /* 0: there is none */
	uint32_t lane;                /* the lane whose turn it is */
	struct hwt_record_slab *slab; /* the slab whose turn it is */
	bool all;                     /* for hwt_timer_trim: at once, also memory of lanes in use */
	bool again;                   /* another look is to come */
	int64_t now_ns, hold_ns;      /* a slab goes if it has been empty for hold_ns */
	size_t given;                 /* bytes that have gone back to the system, ever, the wheel's too */
	size_t owed;                  /* bytes that restarted queues have taken, to be subtracted from `given` */
};

/*
 * Give unused memory of the lanes back to the system, slice by slice; with `all` also memory that was in use until now.
 * hwt_look_step returns true while there is more to do.  Only the worker calls them.
 */
void hwt_look_begin(struct hwt_look *look, struct hwt_lanes *lanes, int64_t now_ns, int64_t hold_ns, bool all);
bool hwt_look_step(struct hwt_look *look);

#endif
