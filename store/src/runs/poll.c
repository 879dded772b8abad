/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptor that is readable while a run can be pulled.  Its state changes only under store->lock.  So a program
 * that has pulled nothing and then polls hears of a row that came in between.
 */
#define _GNU_SOURCE
#include "runs/poll.h"
#include "store/store.h"

#include <fcntl.h>
#include <unistd.h>

void hwts_poll_init(hwt_store *store)
{
	store->poll->fd[0] = store->poll->fd[1] = -1;
}

void hwts_poll_destroy(hwt_store *store)
{
	for (int i = 0; i < 2; i++)
		if (store->poll->fd[i] >= 0)
			close(store->poll->fd[i]);
}

/* The pipe holds one byte or none, so neither call waits. */
static void show(struct hwts_poll *poll)
{
	bool readable = !poll->started || (poll->waiting > 0 && !poll->unread);
	char byte = 0;

	if (poll->fd[0] < 0 || readable == poll->readable)
		return;
	if ((readable ? write(poll->fd[1], &byte, 1) : read(poll->fd[0], &byte, 1)) == 1)
		poll->readable = readable;
}

int hwts_poll_fd(hwt_store *store, int *fd)
{
	struct hwts_poll *poll = store->poll;

	if (poll->fd[0] < 0 && pipe2(poll->fd, O_NONBLOCK | O_CLOEXEC) != 0)
		return hwts_fail_errno(errno, "pipe2");
	show(poll);
	*fd = poll->fd[0];
	return 0;
}

void hwts_poll_start(hwt_store *store, bool started)
{
	store->poll->started = started;
	show(store->poll);
}

void hwts_poll_wait(hwt_store *store, int n)
{
	store->poll->waiting += (unsigned)n;
	store->poll->unread &= n < 0;
	show(store->poll);
}

void hwts_poll_unread(hwt_store *store)
{
	store->poll->unread = true;
	show(store->poll);
}

bool hwts_poll_waits(const hwt_store *store)
{
	return store->poll->waiting > 0;
}
