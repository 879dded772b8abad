/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The put of what has a schedule, grace or a spread: a row by itself, whose parameters are no arrays.  The first ten
 * are those of every put; ?11 is how much later than on its grid it is due, ?12 to ?15 schedule, zone, grace, spread.
 */
#ifndef HWTS_SQL_SERIES_H
#define HWTS_SQL_SERIES_H

#define HWTS_PUT_SERIES_INTO                                                                                           \
	"insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp"  \
	", key, data, priority, schedule, zone, grace_us, spread_us)"

/* end: what becomes of one whose key is in use, and what is returned. */
#define HWTS_PUT_SERIES(end)                                                                                           \
	{                                                                                                              \
		"put", "innibinkkdittii",                                                                              \
		    HWTS_PUT_SERIES_INTO                                                                               \
		    "@values?1, ?1 & 1023, ?4 + ?11, ?4, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7, ?12, ?13,"              \
		    " nullif(?14, 0), nullif(?15, 0)@here" end,                                                        \
		    "with n as materialized (select @now us@here) " HWTS_PUT_SERIES_INTO                               \
		    " select ?1, ?1 & 1023, d.us + ?11, d.us, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7, ?12, ?13,"         \
		    " nullif(?14, 0), nullif(?15, 0) from n, lateral (select case when ?5 then ?4 else n.us + ?4 end"  \
		    " us) d" end                                                                                       \
	}

#endif
