/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The views that a person reads: @_timeouts and @_kinds.  The store itself reads neither, so a program goes on without.
 *
 * An engine has words of its own for the clock in microseconds, a moment, a text that the table holds as bytes, and
 * seconds.  @_kinds probes the index by due time and counts no further than 1001.  A kind has the shards from 1024
 * times its id on, and what has failed lies in the shards below 0.
 */
#ifndef HWTS_VIEWS_H
#define HWTS_VIEWS_H

/* clang-format off */
#define HWTS_VIEWS(CREATE, NOW, MOMENT, AS_TEXT, SECONDS)                                                              \
	CREATE " @_timeouts as select t.id, k.name as kind, " AS_TEXT("nullif(t.grp, '')") " as grp, "                 \
	AS_TEXT("t.key") " as key, case t.state when 1 then 'pending' when 2 then 'running' else 'failed' end"         \
	" as state, case when t.shard is not null and t.due_us > 0 then " MOMENT("t.due_us") " end as due,"            \
	" t.state = 1 and t.shard is not null and t.due_us between 1 and " NOW " as overdue, t.attempt,"               \
	" case when t.schedule is not null then t.schedule || coalesce(' ' || t.zone, '')"                             \
	" when t.period_us > 0 then 'every ' || " SECONDS("t.period_us") " end as repeats,"                            \
	" (select s.owner from @_shard s where s.id = case when t.shard < 0 then -1 - t.shard else t.shard end)"       \
	" as owner, t.error from @_timeout t left join @_kind k on k.id = t.kind;"                                     \
	CREATE " @_kinds as select k.name as kind, k.paused, nullif(substr(coalesce(', running ' || k.running, '')"    \
	" || case when k.start_every_us > 0 then ', a start every ' || " SECONDS("k.start_every_us") " else '' end"    \
	" || coalesce(', burst ' || k.burst, ''), 3), '') as limits,"                                                  \
	" (select count(*) from (select 1 from @_timeout t where t.shard between -1024 * (k.id + 1)"                   \
	" and -1 - 1024 * k.id limit 1001) f) as failed,"                                                              \
	" (select " MOMENT("min(o.due_us)") " from (select (select t.due_us from @_timeout t where t.shard = s.id"     \
	" and t.due_us > 0 and t.state = 1 order by t.due_us limit 1) due_us from @_shard s where s.kind = k.id) o)"   \
	" as oldest_due"                                                                                               \
	" from @_kind k where k.removed is null or exists (select 1 from @_shard s join @_timeout t on"                \
	" t.shard in (s.id, -1 - s.id) where s.kind = k.id);"
/* clang-format on */

#endif
