/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine that the store uses in place of PostgreSQL; driver.c. */
#ifndef HWTS_SIM_DRIVER_H
#define HWTS_SIM_DRIVER_H

#include "tables.h"

/* What happens to exchanges.  loses, freezes, deaf: to one in this number, drawn; 0: to none. */
struct sim_network {
	unsigned loses;   /* connections: the request arrives after the client has given up, or never */
	unsigned freezes; /* connections: the request comes when nobody waits for its reply any more, or never */
	unsigned deaf;    /* notifications */
	int64_t trip_ns;  /* longest time of one way */
	size_t room;      /* bytes of an answer or a request that the network buffers; 0: any number */
};
extern struct sim_network sim_network;

/*
 * In place of a statement that a task executes on its connection.  missed -1: the timeout will run again for the same
 * time.
 */
int sim_effect(void *connection, int64_t item, int64_t due_us, int64_t missed, int64_t child);

/* A user's own connection with an open transaction; NULL: the server is away. */
void *sim_user_begin(bool elsewhere); /* elsewhere: to the database of another store */
int sim_user_end(void *connection, bool commits);

extern int64_t sim_lease_ns;
void sim_note_fault(int64_t ns);                  /* something is out of order, for this long */
void sim_reap(const struct sim_process *process); /* the process has been stopped: closes its transactions later */
void sim_drop_connections(const struct sim_process *process); /* process NULL: all connections */

unsigned sim_count_calls(const struct sim_process *process); /* how many connections for calls it has */

/* late.c: a copy of an exchange that is executed after its client has given up. */
void sim_execute_late(const struct hwts_step *steps, size_t n, unsigned flags, bool synced, int64_t patience_ns,
		      int64_t delay_ns);

/* Executes an exchange; client NULL: no client waits for it.  *tx: the open transaction, before and after. */
struct sim_conn;
int sim_execute_all(struct sim_conn *client, struct tx **tx, const struct hwts_step *steps, size_t n, unsigned flags,
		    bool synced, int64_t patience_ns, struct output *output);

#endif
