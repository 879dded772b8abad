/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statements that look ahead; sql.c includes them.
 *
 * Rows are (part, id, due_us, shard, len, epoch, grp, priority).  Part 1 is what lies beyond the marks, 2 what became
 * visible before them, 3 what is overdue, and 4 what is overdue and runs under the epoch that is held.  The epoch is
 * that under which the row runs, or 0.
 *
 * LOOK_GROUP reads what the window has not kept of a group (?3), LOOK_NO_GROUP of what has none.
 *
 * LOOK_NEXT and LOOK_NEXT_IN read an index and no row, so that a row that cannot be read can be passed by.  PostgreSQL
 * reads the row all the same if its page has changed since the last vacuum.
 *
 * SQLite's SWEEP has no part 2, for commits are in line, and no part 4: an end is lost with the machine, and so is its
 * process.
 */
#ifndef HWTS_SQL_LOOK_H
#define HWTS_SQL_LOOK_H

#include "rows/sql_words.h"

/* clang-format off */
#define NEXT(where) \
	"select t.due_us, t.id from @_timeout t where " where \
	" and (t.due_us, t.id) > (?1, ?2) order by t.due_us, t.id limit 1"
/* PostgreSQL: rows of a shard m that a look looks for. */
#define AHEAD "t.shard = m.s and (t.due_us, t.id) > (m.d, m.i) and t.due_us < m.h and " MAY_BEGIN
#define LATE(from) \
	"t.shard = m.s and t.due_us >= " from " and (t.due_us, t.id) <= (m.d, m.i) and t.tx >= m.x and not" \
	" pg_visible_in_snapshot(t.tx, m.p) and " MAY_BEGIN
#define OVERDUE(before) \
	"t.shard = m.s and (t.due_us, t.id) > (m.f, m.g) and t.due_us < " before " and (t.state = 1 or (t.state = 2" \
	" and t.epoch <= m.e))"
#define HWTS_LOOK_STATEMENTS \
	TEXTS(LOOK, "look", "NIIIIi", \
		"select 1, " ROW \
		" from @_timeout t where t.shard = ?1 and (t.due_us, t.id) > (?4, ?5) and t.due_us < ?3 and (t.state" \
		" = 1 or (t.state = 2 and t.epoch < ?2)) order by t.due_us, t.id limit ?6", \
		"with m as materialized (select * from unnest(?1, ?2, ?3, ?4, ?5) m(s, e, h, d, i)) select 1, x.*" \
		" from m, lateral (select " ROW " from @_timeout t where " AHEAD \
		" order by t.due_us, t.id limit ?6) x"), \
	TEXT(LOOK_GROUP, "look", "nnkiiiini", \
		"select 1, " ROW \
		" from @_timeout t where t.bucket = ?1 and t.kind = ?2 and t.grp = ?3 and t.grp <> '' and (t.due_us," \
		" t.id) > (?4, ?5) and t.due_us <= ?6 and (t.due_us < ?6 or t.id <= ?7) and t.priority = ?8 and" \
		" t.state = 1 order by t.due_us, t.id limit ?9"), \
	TEXT(LOOK_NO_GROUP, "look", "niiiini", \
		"select 1, " ROW \
		" from @_timeout t where t.shard = ?1 and (t.due_us, t.id) > (?2, ?3) and t.due_us <= ?4 and" \
		" (t.due_us < ?4 or t.id <= ?5) and length(t.grp) = 0 and t.priority = ?6 and t.state = 1 order by" \
		" t.due_us, t.id limit ?7"), \
	TEXT(LOOK_NEXT, "look", "iin", NEXT("t.shard = ?3")), \
	TEXT(LOOK_NEXT_IN, "look", "iinnk", \
		NEXT("t.bucket = ?3 and t.kind = ?4 and t.grp = ?5 and t.grp <> ''")), \
	TEXTS(SWEEP, "sweep", "NIIIitiiII", \
		"select 3, " ROW \
		" from @_timeout t where t.shard = ?1 and (t.due_us, t.id) > (?9, ?10) and t.due_us < ?7 and" \
		" (t.state = 1 or (t.state = 2 and t.epoch < ?2)) order by t.due_us, t.id limit ?5", \
		"with m as materialized (select m.*, p.p, pg_snapshot_xmin(p.p) x from unnest(?1, ?2, ?3, ?4, ?9," \
		" ?10) m(s, e, d, i, f, g), (select ?6::pg_snapshot p) p) select 2, x.* from m, lateral (select " ROW \
		" from @_timeout t where " LATE("?8") \
		" offset 0) x union all select x.* from m, lateral (select case when " MAY_BEGIN \
		" then 3 else 4 end, " ROW " from @_timeout t where " OVERDUE("?7") \
		" order by t.due_us, t.id limit ?5) x"), \
/* clang-format on */

#endif
