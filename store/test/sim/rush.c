/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rush: many timeouts of one group are due at the same time, so that some are begun ahead of a thread.  All users
 * come, and make calls about the same few timeouts again and again; world.h.
 */
#include "world.h"

#define LASTS_NS HWT_MS(300) /* how long users make calls about them */

static struct {
	unsigned kind, group;
	int64_t due_ns, until_ns; /* timeouts that are put before until_ns are due at due_ns */
	struct item *item;        /* the last call was about this one */
} rush;

bool sim_is_rush(void)
{
	return sim_now() < rush.until_ns;
}

/* False if there is a rush already. */
bool sim_begin_rush(int64_t puts_ns)
{
	if (sim_is_rush())
		return false;
	rush.kind = (unsigned)sim_random(KINDS);
	rush.group = (unsigned)sim_random(GROUPS);
	rush.due_ns = sim_now() + puts_ns;
	rush.until_ns = rush.due_ns + LASTS_NS;
	rush.item = NULL;
	return true;
}

void sim_wait_for_rush(int64_t until_ns)
{
	(void)sim_wait("a rush", &rush, until_ns);
}

/* Users come when the rush is due. */
void sim_call_to_rush(void)
{
	if (rush.due_ns > sim_now())
		sim_sleep(rush.due_ns - sim_now());
	sim_wake_all(&rush);
}

bool sim_draw_rush(struct item *item, int64_t *delay_ns)
{
	if (rush.due_ns <= sim_now())
		return false;
	sim_set_kind(item, rush.kind);
	item->group = rush.group;
	*delay_ns = rush.due_ns - sim_now();
	return true;
}

static bool is_begun(const struct version *t, const struct node *node, bool here)
{
	const struct item *item = t->n[STATE] == HWT_STORE_RUNNING ? sim_item_of(t) : NULL;

	return item && item->put == ACCEPTED && item->id != 0 && !sim_is_running(item) &&
	       (!here || sim_is_owner(node, t));
}

/* A timeout that is begun and has not started; half of the time by this process. */
static struct item *one_that_is_begun(const struct node *node)
{
	bool here = sim_hit(2);
	struct item *item = NULL;
	unsigned count = 0;

	EACH_COMMITTED (TIMEOUT, t)
		if (is_begun(t, node, here) && sim_hit(++count))
			item = sim_item_of(t);
	return item;
}

/* The timeout of the last call, or another; NULL: none. */
struct item *sim_rush_item(const struct node *node)
{
	if (!rush.item || !sim_hit(sim_row_of_id(rush.item->id) ? 2 : 8))
		rush.item = one_that_is_begun(node);
	return rush.item;
}
