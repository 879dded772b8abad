/* SPDX-License-Identifier: BSD-2-Clause */
/* What other threads ask of control. */
#define _GNU_SOURCE
#include "store/asks.h"
#include "store/store.h"

#include <fcntl.h>
#include <unistd.h>

void hwts_asks_init(hwt_store *store)
{
	store->asks->poke[0] = store->asks->poke[1] = -1;
}

int hwts_asks_open(hwt_store *store)
{
	return pipe2(store->asks->poke, O_NONBLOCK | O_CLOEXEC) == 0 ? 0 : hwts_fail_errno(errno, "pipe2");
}

void hwts_asks_close(hwt_store *store)
{
	for (int i = 0; i < 2; i++)
		if (store->asks->poke[i] >= 0)
			close(store->asks->poke[i]);
	hwts_asks_init(store);
}

void hwts_poke(hwt_store *store)
{
	ssize_t ignored = write(store->asks->poke[1], "", 1); /* full: control is awake; closed: control does not run */

	(void)ignored;
}

int hwts_poke_fd(const hwt_store *store)
{
	return store->asks->poke[0];
}

void hwts_poke_read(hwt_store *store)
{
	char drain[256];

	while (read(store->asks->poke[0], drain, sizeof(drain)) > 0)
		;
}

void hwts_ask(hwt_store *store, unsigned what)
{
	store->asks->what |= what;
}

bool hwts_asked(const hwt_store *store, unsigned what)
{
	return store->asks->what & what;
}

void hwts_ask_done(hwt_store *store, unsigned what)
{
	store->asks->what &= ~what;
}
