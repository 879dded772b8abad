/* SPDX-License-Identifier: BSD-2-Clause */
/* How a run ends: by what its task has answered. */
#include "core/store.h"

int64_t hwts_back_off_us(const struct hwts_kind *kind, unsigned attempt)
{
	int64_t delay_us = kind->backoff_us;

	for (unsigned i = 1; i < attempt && delay_us < kind->backoff_max_us; i++)
		delay_us *= 2;
	/* Jitter: later than asked for, or earlier at the upper limit. */
	if (delay_us >= kind->backoff_max_us)
		return kind->backoff_max_us - (int64_t)(hwts_random() % (uint64_t)(kind->backoff_max_us / 8 + 1));
	return delay_us + (int64_t)(hwts_random() % (uint64_t)(delay_us / 4 + 1));
}

void hwts_fail_run(struct hwts_row *row, const char *error, bool counts)
{
	const struct hwts_kind *kind = row->kind;

	hwts_cut(row->error, sizeof(row->error), error, strlen(error));
	row->how = counts && row->attempt >= kind->max_attempts ? HWTS_FAIL : HWTS_AFTER;
	row->when_us = hwts_back_off_us(kind, row->attempt);
	row->limit_us = row->period_us > 0 ? row->next_base_us : HWTS_NEVER;
	row->next_base_us = row->base_us;
	row->next_attempt = counts ? row->attempt : row->attempt - 1;
}

void hwts_succeed(struct hwts_row *row)
{
	row->how = row->period_us > 0 ? HWTS_AT : HWTS_DONE;
	row->when_us = row->next_base_us;
	row->next_attempt = 0;
}
