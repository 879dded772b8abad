/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics: how late runs start. */
#include "core/tally.h"
#include "core/store.h"

static unsigned lateness_bucket(int64_t ns)
{
	unsigned bucket = 0;

	for (int64_t us = ns / 1000; us > 0 && bucket < 31; us >>= 1)
		bucket++;
	return bucket;
}

void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns)
{
	int64_t second = now_ns / HWT_S(1);
	size_t at = (size_t)(second % 60);

	peak->ns[at] = peak->second[at] == second ? HWTS_MAX(peak->ns[at], ns) : ns;
	peak->second[at] = second;
}

int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns)
{
	int64_t most = 0;

	for (size_t i = 0; i < 60; i++)
		if (peak->second[i] > now_ns / HWT_S(1) - 60)
			most = HWTS_MAX(most, peak->ns[i]);
	return most;
}

void hwts_tally_start(struct hwts_tally *tally, int64_t now_ns, int64_t late_ns)
{
	late_ns = HWTS_MAX(late_ns, 0);
	tally->lateness_sum_ns += HWTS_MIN(late_ns, INT64_MAX - tally->lateness_sum_ns);
	tally->stats.lateness[lateness_bucket(late_ns)]++;
	tally->stats.lateness_max_ns = HWTS_MAX(tally->stats.lateness_max_ns, late_ns);
	hwts_peak_note(&tally->lateness, now_ns, late_ns);
}
