/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine that the store takes for PostgreSQL; driver.c. */
#ifndef HWTS_SIM_DRIVER_H
#define HWTS_SIM_DRIVER_H

#include "tables.h"

/* What befalls exchanges; one of so many, 0: none. */
struct sim_network {
	unsigned loses;   /* requests, replies */
	unsigned freezes; /* connections: the request comes when nobody waits for its reply any more, or never */
	unsigned deaf;    /* notifications */
	int64_t trip_ns;  /* at most, one way */
	size_t room;      /* so many bytes of an answer or a request lie on the way; 0: all of it */
};
extern struct sim_network sim_network;

/* In place of a statement of a task on its connection: its effect.  missed -1: it is to run again, for the same time. */
int sim_effect(void *connection, int64_t item, int64_t due_us, int64_t missed, int64_t child);

/* A user's own connection, with a transaction that is open; NULL: there is none. */
void *sim_user_begin(bool elsewhere); /* to the database of another store */
int sim_user_end(void *connection, bool commits);

extern int64_t sim_lease_ns;
void sim_note_fault(int64_t ns);                              /* something is out of order, for so long */
void sim_reap(const struct sim_process *process);             /* it has been stopped */
void sim_drop_connections(const struct sim_process *process); /* NULL: all */

unsigned sim_count_calls(const struct sim_process *process); /* its connections for calls */

/* A copy of an exchange that is executed while nobody waits for it, in late.c. */
void sim_execute_late(const struct hwts_step *steps, size_t n, unsigned flags, bool synced, int64_t patience_ns,
		      int64_t delay_ns);

/* Executes an exchange for a client; NULL: none waits.  *tx: the transaction that is open, before and after. */
struct sim_conn;
int sim_execute_all(struct sim_conn *client, struct tx **tx, const struct hwts_step *steps, size_t n, unsigned flags,
		    bool synced, int64_t patience_ns, struct output *output);

#endif
