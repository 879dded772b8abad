/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statements about the rules of groups; sql.c includes them.
 *
 * A change of rules raises the number in the rows of the shards, which a begin compares: the change waits for a begin
 * under the old number, or the begin for it.  A row of @_group with a pause alone has no limits: running is null.
 *
 * length(grp) > 0, and not grp <> '', where a shard is read: by that PostgreSQL would see that the index by group has
 * all of these rows, and in a small table read it from end to end, and go on so when it is large.
 *
 * A kind that was removed has no rules.  One that has rows all the same, as a process that knew it has put them, is
 * there again (BACK); of one that is not nothing is changed (THERE).
 *
 * RULES_RUN reads what runs under an older epoch, of groups, behind a place.  What runs was due, by a clock that may
 * have been put back by a minute since.
 */
#ifndef HWTS_SQL_RULES_H
#define HWTS_SQL_RULES_H

#include "rows/sql_words.h"

/* clang-format off */
#define HWTS_RULES_STATEMENTS \
	TEXT(RULES, "rules", "N", \
		"select s.id, s.rules, s.levels, k.paused, coalesce(k.running, 0), coalesce(k.start_every_us, 0)," \
		" coalesce(k.burst, 0) from @_shard s join @_kind k on k.id = s.kind + 0 where s.id = @any(?1)"), \
	TEXT(RULES_OWN, "rules", "Nn", \
		"select grp, bucket, paused, running is not null, coalesce(running, 0), coalesce(start_every_us, 0)," \
		" coalesce(burst, 0) from @_group where bucket = @any(?1) and kind = ?2"), \
	TEXTS(RULES_RUN, "rules", "NIiii", \
		"select 1, " ROW \
		" from @_timeout t where t.shard = ?1 and (t.due_us, t.id) > (?3, ?4) and t.due_us < @now + 60000000" \
		" and t.state = 2 and t.epoch < ?2 and t.grp <> '' order by t.due_us, t.id limit ?5", \
		"with n as materialized (select @now + 60000000 us), m as materialized (select * from unnest(?1, ?2)" \
		" m(s, e)) select 1, x.* from m, n, lateral (select " ROW \
		" from @_timeout t where t.shard = m.s and (t.due_us, t.id) > (?3, ?4) and t.due_us < n.us and" \
		" t.state = 2 and t.epoch < m.e and length(t.grp) > 0 order by t.due_us, t.id limit ?5) x"), \
	TEXTS(RULES_LOCK, "rules", "N", "", \
		"select id from @_shard where id = any(?1) order by id for update"), \
	TEXT(RULES_RAISE, "rules", "N", \
		"update @_shard set rules = rules + 1 where id = @any(?1)"), \
	TEXTS(RULES_TELL, "rules", "Nt", \
		"insert into @_hint (id, due_us, shard, len, at_us) select -2, 0, s.id, 0, @now from @_shard s where" \
		" s.id = ?1 and s.owner is not null and s.owner <> ?2", \
		"select pg_notify('@news' || s.id, 'l') from @_shard s where s.id = any(?1) and s.owner is not null" \
		" and s.owner <> ?2"), \
	TEXT(RULES_BACK, "rules", "n", \
		"update @_kind as k set removed = null where k.id = ?1 and k.removed is not null and " HAS_ROWS \
		" > 0"), \
	TEXT(RULES_THERE, "rules", "n", \
		"select 1 from @_kind where id = ?1 and removed is null"), \
	TEXT(PAUSE_KIND, "pause", "nb", \
		"update @_kind set paused = ?2 where id = ?1 and removed is null"), \
	TEXT(PAUSE_GROUP, "pause", "nnkb", \
		"insert into @_group (bucket, kind, grp, paused) select ?1, ?2, ?3, ?4 from @_kind where id = ?2 and" \
		" removed is null on conflict (bucket, kind, grp) do update set paused = excluded.paused"), \
	TEXT(LIMIT_KIND, "limit", "nnin", \
		"update @_kind set running = nullif(?2, 0), start_every_us = nullif(?3, 0), burst = nullif(?4, 0)" \
		" where id = ?1 and removed is null"), \
	TEXT(LIMIT_GROUP, "limit", "nnknin", \
		"insert into @_group (bucket, kind, grp, running, start_every_us, burst) select ?1, ?2, ?3," \
		" nullif(?4, -1), ?5, ?6 from @_kind where id = ?2 and removed is null on conflict (bucket, kind," \
		" grp) do update set running = excluded.running, start_every_us = excluded.start_every_us, burst =" \
		" excluded.burst"), \
	TEXT(TIDY_GROUP, "limit", "nnk", \
		"delete from @_group where bucket = ?1 and kind = ?2 and grp = ?3 and not paused and running is null"),
/* clang-format on */

#endif
