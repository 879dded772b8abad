/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fail-overs of a cluster (store/test/patroni.sh).  Each takes away the node that writes, by SIGKILL of all its
 * processes, by SIGSTOP, or by dropping its packets; waits until another node writes; brings the first back; and waits
 * until the cluster is whole again.
 *
 * HWT_CLUSTER_NODES  the urls of the single nodes
 * HWT_CLUSTER_CTL    a command: kill N, stop N, wake N, start N, cut N, join N
 * HWT_CLUSTER_CUT    1: the command knows cut and join
 *
 * The log has `away WHAT` before a fail-over, and `back` when a node writes again: the time in between is the
 * cluster's.  history.pl says how much longer no timeout ran.
 */
#include "torture.h"

#define NODES 3
/* The cluster must be whole for this long: then it knows its synchronous standby, too. */
#define CALM_US INT64_C(7000000)
#define OFF_US INT64_C(4000000)    /* how long the node stays away after another one writes */
#define SLOW_US INT64_C(600000000) /* a step that takes longer has failed */
#define APART_US INT64_C(100000)   /* between two checks */

static const char *const fail_overs[] = { "kill", "stop", "kill", "cut", "kill", "kill", "kill" };

enum phase { MENDING, CALM, AWAY, OFF, WOKEN };

static struct {
	const char *ctl;
	char nodes[NODES][160];
	unsigned done, victim;
	enum phase phase;
	int64_t since_us, look_us;
} cluster;

static void enter(enum phase phase)
{
	cluster.phase = phase;
	cluster.since_us = true_us();
}

void torture_cluster_find(void)
{
	const char *nodes = getenv("HWT_CLUSTER_NODES");

	for (unsigned i = 0; i < NODES && nodes != NULL; i++) {
		size_t len = strcspn(nodes, ";");

		(void)snprintf(cluster.nodes[i], sizeof(cluster.nodes[i]), "%.*s", (int)len, nodes);
		nodes += len + (nodes[len] == ';');
	}
	cluster.ctl = getenv("HWT_CLUSTER_CTL");
	enter(MENDING);
}

bool torture_cluster_is_there(void)
{
	return cluster.ctl != NULL;
}

/* True: other acts should leave the actors alone. */
bool torture_cluster_is_busy(void)
{
	return cluster.ctl != NULL && cluster.phase != CALM;
}

/* True: all fail-overs are done, and the cluster has been whole for some time. */
bool torture_cluster_is_done(void)
{
	return cluster.ctl != NULL && cluster.done == sizeof(fail_overs) / sizeof(fail_overs[0]) &&
	       cluster.phase == CALM && true_us() - cluster.since_us > CALM_US;
}

static void control(struct torture *torture, const char *what)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%s %s %u", cluster.ctl, what, cluster.victim + 1);
	if (system(text) != 0)
		torture->wrongs++;
}

/* Asks a node; -1: no answer. */
static int64_t ask(unsigned node, const char *sql)
{
	struct effects database = { 0 };
	int64_t number = -1;

#ifdef HAVE_POSTGRES
	database.postgres = PQconnectdb(cluster.nodes[node]);
	if (PQstatus(database.postgres) != CONNECTION_OK || !torture_number(&database, sql, &number))
		number = -1;
#endif
	effects_close(&database);
	return number;
}

/* Returns the number of the node that writes, other than `but`; NODES: none does. */
static unsigned writer_but(unsigned but)
{
	unsigned node = 0;

	while (node < NODES && (node == but || ask(node, "select (not pg_is_in_recovery())::int") != 1))
		node++;
	return node;
}

/* A node that is being copied streams, too, but under another name. */
static const char streaming[] =
    "select count(*) from pg_stat_replication where state = 'streaming' and application_name like 'node%'";

static bool is_whole(void)
{
	unsigned writer = writer_but(NODES);

	return writer < NODES && ask(writer, streaming) == NODES - 1 &&
	       ask(writer, "select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')") == 1;
}

static const char *way(void)
{
	const char *how = fail_overs[cluster.done], *cuts = getenv("HWT_CLUSTER_CUT");

	return strcmp(how, "cut") == 0 && (cuts == NULL || cuts[0] != '1') ? "stop" : how;
}

static void take_away(struct torture *torture)
{
	const char *how = way();

	cluster.victim = writer_but(NODES);
	if (cluster.victim == NODES)
		return;
	effects_close(&torture->database);
	history(torture->log, "away %s", how);
	atomic_fetch_add(&torture->breaks, 1);
	control(torture, how);
	enter(AWAY);
}

static void is_back(struct torture *torture)
{
	history(torture->log, "back");
	enter(OFF);
	if (!torture_open(torture, &torture->database))
		torture->wrongs++;
}

/*
 * A frozen server first wakes up without its Patroni, and believes that it may write; then it is killed, as by a
 * watchdog.
 */
static void bring_back(struct torture *torture)
{
	if (strcmp(way(), "stop") == 0) {
		if (cluster.phase == OFF) {
			control(torture, "wake");
			enter(WOKEN);
			return;
		}
		control(torture, "kill");
	}
	/* A node that was cut off has found out meanwhile that it may not write any more. */
	control(torture, strcmp(way(), "cut") == 0 ? "join" : "start");
	history(torture->log, "node %u is back", cluster.victim + 1);
	cluster.done++;
	enter(MENDING);
}

void torture_cluster(struct torture *torture)
{
	int64_t for_us = true_us() - cluster.since_us;

	if (cluster.ctl == NULL || true_us() < cluster.look_us)
		return;
	if (cluster.phase == MENDING && is_whole())
		enter(CALM);
	else if (cluster.phase == CALM && for_us > CALM_US && cluster.done < sizeof(fail_overs) / sizeof(fail_overs[0]))
		take_away(torture);
	else if (cluster.phase == AWAY && writer_but(cluster.victim) < NODES)
		is_back(torture);
	else if ((cluster.phase == OFF || cluster.phase == WOKEN) && for_us > OFF_US)
		bring_back(torture);
	else if (for_us > SLOW_US) {
		printf("# fail-over %u: phase %d lasts %d s\n", cluster.done + 1, (int)cluster.phase,
		       (int)(for_us / 1000000));
		torture->wrongs++;
		cluster.since_us = true_us();
	}
	cluster.look_us = true_us() + (cluster.phase == MENDING ? 5 * APART_US : APART_US);
}
