/* SPDX-License-Identifier: BSD-2-Clause */
/* A trigger that refuses changes of some rows. */
#ifndef HWT_STORE_REFUSE_H
#define HWT_STORE_REFUSE_H

#include "store_query.h"

/* How PostgreSQL refuses. */
static const char *refused_as = "";

/* Makes the table refuse to delete or update rows for which `when` is true. */
static inline void refuse(const char *what, const char *when)
{
	if (world.sqlite) {
		(void)query("create trigger %s_%s before %s on %s_timeout when %s begin select raise(abort, 'refused"
			    " here'); end",
			    world.schema, what, what, world.schema, when);
		return;
	}
	(void)query("create function %s_%s() returns trigger language plpgsql as 'begin raise exception ''refused"
		    " here''%s; end'; create trigger %s_%s before %s on %s_timeout for each row when (%s) execute"
		    " function %s_%s()",
		    world.schema, what, refused_as, world.schema, what, what, world.schema, when, world.schema, what);
}

static inline void accept_again(const char *what)
{
	if (world.sqlite)
		(void)query("drop trigger %s_%s", world.schema, what);
	else
		(void)query("drop trigger %s_%s on %s_timeout; drop function %s_%s()", world.schema, what, world.schema,
			    world.schema, what);
}

#endif
