/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts that the processes of the torture share: their logs, a page of orders, the database beside the store.
 *
 * Generated  actors (torture_actor.c): each runs timeouts of three kinds, one of each mode, and puts, cancels and
 *            reschedules them (torture_putter.c); one in three is of a group, and some groups have limits
 *            (torture_rules.c)
 * Nemesis    the conductor (torture.c) and its acts (torture_acts.c): kills, stops, restarts, pauses; cuts
 *            connections, halts the server, fails over; fills the disk, holds snapshots, sets clocks.
 *            Users beside the store (torture_users.c) keep rows locked, change settings of the role, and change rules
 *            in storms.  torture_proxy.c stands between the actors and a PostgreSQL server.  torture_cluster.c takes
 *            nodes of a cluster away
 * Checked    history.pl reads all logs, and the tables at the end
 *
 * A log is a file to which each line is appended by one write(2), so a kill loses no line that was written.  Its times
 * are of the machine's clock, read by a system call that faketime does not intercept.
 *
 * The database beside the store and the small helpers are the demo's.
 */
#ifndef HWT_TORTURE_H
#define HWT_TORTURE_H

#pragma GCC diagnostic ignored "-Wunused-function" /* the demo has more functions than are used here */

#define SCHEMA "hwt_torture"
#include "demo_store_effects.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hwt_store.h>

#define TORTURE_LEASE_NS HWT_S(2)
#define TORTURE_ATTEMPTS 8
#define TORTURE_GROUPS 5 /* g0 to g2 have limits, which torture_limits sets */
#define TORTURE_STORMY 8 /* s0 to s7: their rules change in storms */
#define TORTURE_PATIENCE_US INT64_C(120000000)
#define TORTURE_PROMPT_US INT64_C(2000000) /* so soon something starts in a shard, if nothing disturbs it */

/* Orders of the conductor, in FOLDER/orders, which all processes map. */
struct orders {
	atomic_bool quiet;       /* put no more timeouts */
	atomic_bool disk_full;   /* SQLite's writes find no room */
	_Atomic int64_t wall_us; /* SQLite: added to the wall clock */
	atomic_uint proxy_cuts;  /* each increment cuts all connections */
	atomic_uint proxy_halves;
	atomic_bool proxy_holds; /* the proxy forwards nothing */
	atomic_bool proxy_delays;
	atomic_bool proxy_chokes; /* the proxy takes this order back when it has read it */
};

static struct orders *orders_map(const char *folder)
{
	char path[256];
	struct orders *orders;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/orders", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(*orders)) != 0)
		return NULL;
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return orders != MAP_FAILED ? orders : NULL;
}

static int64_t true_us(void)
{
	struct timespec now;

	(void)syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int history_open(const char *folder, const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s.log", folder, name);
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

__attribute__((format(printf, 3, 4))) static void history_at(int fd, int64_t time_us, const char *format, ...)
{
	char line[512];
	int at = snprintf(line, sizeof(line), "%" PRId64 " ", time_us);
	va_list values;

	va_start(values, format);
	at += vsnprintf(line + at, sizeof(line) - (size_t)at - 1, format, values);
	va_end(values);
	at = at < (int)sizeof(line) - 1 ? at : (int)sizeof(line) - 2;
	line[at++] = '\n';
	if (write(fd, line, (size_t)at) != at)
		_exit(3); /* without its log the whole run proves nothing */
}

/* The signals that the conductor sends to an actor. */
static const sigset_t *torture_signals(void)
{
	static sigset_t signals;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGUSR1);
	return &signals;
}

#define history(fd, ...) history_at(fd, true_us(), __VA_ARGS__)

/* torture_actor.c, torture_proxy.c */
int torture_actor(const char *url, const char *folder, const char *name, unsigned number, uint64_t seed);
int torture_proxy(const char *server, const char *folder);

/* The conductor's view of an actor. */
#define ACTORS 4

struct actor {
	pid_t pid;
	char name[16];
	int64_t continue_us, start_us; /* 0: running; when to continue or start it */
};

struct torture {
	const char *url, *real_url; /* url: of the actors, through the proxy; real_url: without it */
	const char *folder;
	struct orders *orders;
	struct effects database;
	int log;
	uint64_t random;
	struct actor actors[ACTORS];
	unsigned instances, copies;
	bool clocks;              /* SQLite: clocks are set; PostgreSQL: the actors' clocks are wrong, by faketime */
	const char *standby;      /* a command such as pg_ctl for the standby to fail over to; NULL: none */
	const char *server;       /* the same for the server that is in use; NULL: it must not be stopped */
	double load;              /* the highest load for each core */
	pid_t proxy;              /* 0: no proxy */
	int64_t room_us, pass_us; /* when the disk gets room again; when the proxy passes everything again; 0: now */
	int64_t resume_us;        /* when to resume the paused group or kind; 0: none is paused */
	unsigned paused_kind;
	char paused[8];     /* the paused group; "-": the kind */
	int64_t reset_us;   /* when to reset the role's setting; 0: none is set */
	int64_t calm_us;    /* no act before this time */
	atomic_uint breaks; /* crashes of the server, and ends of sessions, by an act */
	unsigned items;     /* put by the conductor */
	atomic_uint wrongs;
};

/* torture_acts.c */
void torture_act(struct torture *torture); /* does a random act */
void torture_step_clocks(struct torture *torture);
/* Once: crashes the server and promotes the standby, if there is one. */
void torture_fail_over(struct torture *torture);
/* Undoes acts whose time is over at now_us; INT64_MAX: all. */
void torture_mend(struct torture *torture, int64_t now_us);

/* torture_cluster.c */
void torture_cluster_find(void);               /* reads the environment */
void torture_cluster(struct torture *torture); /* the next step of its fail-overs, when it is due */
bool torture_cluster_is_there(void);
bool torture_cluster_is_busy(void);
bool torture_cluster_is_done(void);

/* torture_rules.c */
hwt_store *torture_store(const struct torture *torture); /* a store for the conductor; NULL: try again */
void torture_pause(struct torture *torture);
void torture_resume(struct torture *torture);
bool torture_limits(hwt_store *store, int log);
const char *torture_draw_group(uint64_t *random, char group[8]);

/* torture_users.c; each of the first two goes on beside other acts for some seconds, and _over ends it */
void torture_lock(struct torture *torture); /* a transaction of a user that keeps rows locked */
void torture_lock_over(void);
void torture_storm(struct torture *torture); /* 200 changes of rules a second */
void torture_storm_over(void);
void torture_role(struct torture *torture); /* changes a setting of the role */
void torture_role_back(struct torture *torture);
void torture_terminate(struct torture *torture); /* the store's sessions */

/* torture_tables.c */
bool torture_tables(struct effects *database, const char *file);
bool torture_number(struct effects *database, const char *sql, int64_t *number);
bool torture_create(struct effects *database); /* the tables beside the store's */
bool torture_query(void *connection, bool sqlite, const char *sql);
int torture_effect(void *connection, bool sqlite, uint64_t item, int64_t due_us);
bool torture_end_periodic(struct torture *torture); /* cancels timeouts that would go on for ever; false: try again */

/* torture.c */
bool torture_note_pauses(
    int *log); /* in a thread, when this process stands still: what is judged by a clock excuses it */
void torture_start(struct torture *torture, struct actor *actor);
bool torture_open(struct torture *torture, struct effects *database); /* tries until the database can be reached */

#endif
