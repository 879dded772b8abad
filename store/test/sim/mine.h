/* SPDX-License-Identifier: BSD-2-Clause */
/* What an actor of the store's simulation has beside what frame.h says. */
#ifndef HWTS_SIM_MINE_H
#define HWTS_SIM_MINE_H

#define SIM_OWN 2048

struct sim_mine {
	struct sim_process *process; /* NULL: the world's */
	unsigned in_server;          /* so many calls deep: it goes on though its process is stopped or dead */
	int error;
	char own[SIM_OWN]; /* what a thread has for itself (own.h) */
};

#endif
