/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mailbox: how any thread tells something to a thread that sleeps in epoll_wait, without a lock and without waiting.
 *
 *     any thread                                      the thread that owns the mailbox
 *     mailbox_post --> [ newest -> ... -> oldest ] --> mailbox_take, all letters at once, oldest first
 *                 \--> eventfd, readable ------------> epoll_wait returns
 *
 * Structure  A stack of letters that are linked through themselves, so that posting never allocates.  The letter is
 *            the reader's from mailbox_post on: the poster does not touch it again.
 * Invariant  While the stack is not empty, the eventfd is readable, or the poster of its oldest letter is about to
 *            make it so.  Hence only the letter that finds the stack empty costs a system call, and take reads the
 *            eventfd first and the stack second: the other way round a letter in between would lie there unseen.
 * Ordering   post releases, take acquires: what was written before the post is visible to the reader.  A letter that
 *            finds others below it need not acquire them, it only links to them.  No ABA: letters leave all at once.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct letter {
	struct letter *next;
	void (*deliver)(void *about); /* what the reader is to do with it, on its own thread */
	void *about;
};

struct mailbox {
	_Atomic(struct letter *) newest;
	int fd; /* for epoll: readable when there is something to take */
};

static inline bool mailbox_open(struct mailbox *mailbox)
{
	atomic_init(&mailbox->newest, NULL);
	mailbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return mailbox->fd >= 0;
}

/* Makes epoll_wait return, also without a letter.  It can only fail when the eventfd is readable as it is. */
static inline void mailbox_wake(struct mailbox *mailbox)
{
	ssize_t written = write(mailbox->fd, &(uint64_t){ 1 }, sizeof(uint64_t));

	(void)written;
}

static inline void mailbox_post(struct mailbox *mailbox, struct letter *letter)
{
	/* Relaxed: a guess, which the CAS checks. */
	struct letter *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);

	do
		letter->next = newest;
	while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, letter, memory_order_release,
						      memory_order_relaxed));
	if (newest == NULL)
		mailbox_wake(mailbox);
}

static inline struct letter *mailbox_take(struct mailbox *mailbox)
{
	struct letter *letter, *oldest = NULL;
	uint64_t wakes;
	ssize_t got = read(mailbox->fd, &wakes, sizeof(wakes));

	(void)got; /* nothing to read: nobody woke us, which is no reason not to look */
	letter = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
	while (letter != NULL) {
		struct letter *next = letter->next;

		letter->next = oldest;
		oldest = letter;
		letter = next;
	}
	return oldest;
}

#endif /* MAILBOX_H */
