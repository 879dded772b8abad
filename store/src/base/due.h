/* SPDX-License-Identifier: BSD-2-Clause */
/* A row that is due soon, as looks, news and puts hand it to the window and to the turns of groups. */
#ifndef HWTS_DUE_H
#define HWTS_DUE_H

#include "base/common.h"

/* Where the window has heard of a row. */
enum hwts_part {
	HWTS_TOLD,  /* a put, or news */
	HWTS_AHEAD, /* beyond the mark */
	HWTS_LATE,  /* it became visible before the mark */
	HWTS_OVERDUE,
	HWTS_RUNS /* overdue, and it runs under the epoch held, says the database */
};

/* A row of the window: from a look-ahead, from news, from a put. */
struct hwts_due {
	int64_t id, due_us;
	int32_t shard;
	uint32_t len; /* of its data */
	enum hwts_part part;
	int64_t epoch; /* it runs under this one; 0: it is pending */
	int8_t priority;
	uint8_t group_len; /* 0: it has no group */
	char group[HWTS_KEY_MAX];
};

#endif
