/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits and starts as texts; waits.h.  Anybody may have written what is read. */
#include "base/waits.h"

#include <inttypes.h>
#include <stdio.h>

bool hwts_waits_write(char text[HWTS_WAITS_MAX + 1], int64_t kind, const struct hwts_waits *waits)
{
	size_t from = strlen(text), at = from;
	char head[32];

	(void)snprintf(head, sizeof(head), "%s%" PRId64 ":", from > 0 ? " " : "", kind);
	for (size_t why = 0; why < HWT_STORE_WAITS; why++) {
		const struct hwts_wait *wait = &waits->of[why];
		bool known = wait->oldest_us > 0 && wait->oldest_us != HWTS_NEVER;

		if (wait->count == 0 || !hwts_wait_is_told(why))
			continue;
		at += (size_t)snprintf(text + at, HWTS_WAITS_MAX + 1 - at, "%s%s=%" PRIu64 "@%" PRId64,
				       at == from ? head : ",", hwts_wait_word(why), wait->count,
				       known ? wait->oldest_us : 0);
		if (at > HWTS_WAITS_MAX) {
			text[from] = '\0';
			return false;
		}
	}
	return true;
}

struct cursor {
	const char *at, *end;
};

static bool take(struct cursor *cursor, char is)
{
	if (cursor->at == cursor->end || *cursor->at != is)
		return false;
	cursor->at++;
	return true;
}

/* Of at most 18 digits. */
static bool take_number(struct cursor *cursor, int64_t *number)
{
	const char *from = cursor->at;

	*number = 0;
	for (; cursor->at < cursor->end && cursor->at - from < 18 && *cursor->at >= '0' && *cursor->at <= '9';
	     cursor->at++)
		*number = *number * 10 + (*cursor->at - '0');
	return cursor->at > from;
}

/* HWT_STORE_WAITS: of a word that is not told here. */
static bool take_reason(struct cursor *cursor, size_t *why)
{
	const char *from = cursor->at;
	size_t len;

	while (cursor->at < cursor->end && ((*cursor->at >= 'a' && *cursor->at <= 'z') || *cursor->at == '_'))
		cursor->at++;
	len = (size_t)(cursor->at - from);
	for (*why = 0; *why < HWT_STORE_WAITS; ++*why)
		if (hwts_wait_is_told(*why) && strncmp(hwts_wait_word(*why), from, len) == 0 &&
		    !hwts_wait_word(*why)[len])
			break;
	return len > 0;
}

static bool take_wait(struct cursor *cursor, size_t *why, struct hwts_wait *wait)
{
	int64_t count;

	if (!take_reason(cursor, why) || !take(cursor, '=') || !take_number(cursor, &count) || !take(cursor, '@') ||
	    !take_number(cursor, &wait->oldest_us))
		return false;
	wait->count = (uint64_t)count;
	if (wait->oldest_us == 0)
		wait->oldest_us = HWTS_NEVER;
	return count > 0;
}

bool hwts_waits_read(const char *text, size_t len,
		     void (*told)(void *ctx, int64_t kind, size_t why, const struct hwts_wait *wait), void *ctx)
{
	struct cursor cursor = { text, text + len };
	struct hwts_wait wait = { .count = 0 };
	int64_t kind;
	size_t why;

	do {
		if (!take_number(&cursor, &kind) || !take(&cursor, ':'))
			return false;
		do {
			if (!take_wait(&cursor, &why, &wait))
				return false;
			if (told && why < HWT_STORE_WAITS)
				told(ctx, kind, why, &wait);
		} while (take(&cursor, ','));
	} while (take(&cursor, ' '));
	return cursor.at == cursor.end;
}

void hwts_starts_write(char text[HWTS_WAITS_MAX + 1], int64_t kind, uint64_t count)
{
	size_t from = strlen(text), room = HWTS_WAITS_MAX + 1 - from;

	if (count > 0 &&
	    (size_t)snprintf(text + from, room, "%s%" PRId64 "=%" PRIu64, from > 0 ? " " : "", kind, count) >= room)
		text[from] = '\0';
}

bool hwts_starts_read(const char *text, size_t len, void (*told)(void *ctx, int64_t kind, uint64_t count), void *ctx)
{
	struct cursor cursor = { text, text + len };
	int64_t kind, count;

	do {
		if (!take_number(&cursor, &kind) || !take(&cursor, '=') || !take_number(&cursor, &count))
			return false;
		if (told)
			told(ctx, kind, (uint64_t)count);
	} while (take(&cursor, ' '));
	return cursor.at == cursor.end;
}
