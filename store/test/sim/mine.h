/* SPDX-License-Identifier: BSD-2-Clause */
/* Fields of an actor in the store's simulation, beside those of frame.h. */
#ifndef HWTS_SIM_MINE_H
#define HWTS_SIM_MINE_H

#define SIM_OWN 2048

struct sim_mine {
	struct sim_process *process; /* NULL: the world itself */
	/* Depth of calls in the server: above 0 the actor goes on though its process is stopped or dead. */
	unsigned in_server;
	int error;
	char own[SIM_OWN]; /* the thread-local variables of a thread (own.h) */
};

#endif
