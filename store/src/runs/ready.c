/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptor that says whether a run can be pulled.  It is readable as long as that is so: each change of it is
 * made with the lock, so a program that has found nothing and polls then hears of what comes in between.
 */
#define _GNU_SOURCE
#include "runs/ready.h"
#include "store/store.h"

#include <fcntl.h>
#include <unistd.h>

void hwts_ready_init(hwt_store *store)
{
	store->ready->fd[0] = store->ready->fd[1] = -1;
}

void hwts_ready_destroy(hwt_store *store)
{
	for (int i = 0; i < 2; i++)
		if (store->ready->fd[i] >= 0)
			close(store->ready->fd[i]);
}

/* One byte goes in or out, so neither waits. */
static void show(struct hwts_ready *ready)
{
	bool readable = !ready->started || ready->waiting > 0;
	char byte = 0;

	if (ready->fd[0] < 0 || readable == ready->readable)
		return;
	if ((readable ? write(ready->fd[1], &byte, 1) : read(ready->fd[0], &byte, 1)) == 1)
		ready->readable = readable;
}

int hwts_ready_fd(hwt_store *store, int *fd)
{
	struct hwts_ready *ready = store->ready;

	if (ready->fd[0] < 0 && pipe2(ready->fd, O_NONBLOCK | O_CLOEXEC) != 0)
		return hwts_fail_errno(errno, "pipe2");
	show(ready);
	*fd = ready->fd[0];
	return 0;
}

void hwts_ready_start(hwt_store *store, bool started)
{
	store->ready->started = started;
	show(store->ready);
}

void hwts_ready_wait(hwt_store *store, int n)
{
	store->ready->waiting += (unsigned)n;
	show(store->ready);
}

bool hwts_ready_waits(const hwt_store *store)
{
	return store->ready->waiting > 0;
}
