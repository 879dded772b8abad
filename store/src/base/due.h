/* SPDX-License-Identifier: BSD-2-Clause */
/* A row that is due soon: passed by looks, news and puts to the window and to the turns of groups. */
#ifndef HWTS_DUE_H
#define HWTS_DUE_H

#include "base/common.h"

/* How the window heard of a row. */
enum hwts_part {
	HWTS_TOLD,  /* by a put of this process, or news */
	HWTS_AHEAD, /* by a look, beyond the mark */
	HWTS_LATE,  /* by a sweep: the row became visible behind the mark */
	HWTS_OVERDUE,
	HWTS_RUNS /* by a sweep: overdue, and the database says that it runs under the epoch that is held */
};

/* The row, as far as the window needs it. */
struct hwts_due {
	int64_t id, due_us;
	int32_t shard;
	uint32_t len; /* of its data */
	enum hwts_part part;
	int64_t epoch; /* the row runs under this epoch; 0: pending */
	int8_t priority;
	uint8_t group_len; /* 0: no group */
	char group[HWTS_KEY_MAX];
};

#endif
