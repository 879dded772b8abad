/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of news, "id:*:len,..." of each shard: what stands for the time is replaced by the server. */
#include "core/rows.h"

#include <stdlib.h>

#define ITEM 32       /* bytes of a row at most */
#define TIME 16       /* those of a time at most, for which one stands */
#define NEWS_MAX 7000 /* what the server takes; more: the holder reads its rows */

static bool are_alike(const struct hwts_put *puts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (puts[i].kind.id != puts->kind.id || puts[i].when_us != puts->when_us ||
		    puts[i].absolute != puts->absolute || puts[i].group || puts[i].key || puts[i].priority != 0)
			return false;
	return true;
}

static char *write_row(char *to, const struct hwts_put *put)
{
	to = hwts_put_digits(to, put->id);
	memcpy(to, ":*:", 3);
	to = hwts_put_digits(to + 3, (int64_t)put->len);
	*to++ = ',';
	return to;
}

/* Where the text of each shard begins, by those of their rows. */
static void divide(const uint32_t *count, char **begin, char *text)
{
	for (size_t i = 0; i < HWTS_SHARDS_MAX; i++) {
		begin[i] = text;
		text += count[i] * ITEM;
	}
}

bool hwts_news_write(struct hwts_news *news, const struct hwts_put *puts, size_t n)
{
	uint32_t count[HWTS_SHARDS_MAX] = { 0 };
	char *begin[HWTS_SHARDS_MAX], *end[HWTS_SHARDS_MAX], *text;
	size_t shards = HWTS_MIN(n, HWTS_SHARDS_MAX);

	if (!are_alike(puts, n))
		return false;
	news->memory = hwts_alloc(shards * (sizeof(*news->texts) + sizeof(*news->shards)) + n * ITEM);
	if (!news->memory)
		return false;
	news->texts = news->memory;
	news->shards = (int64_t *)(news->texts + shards);
	text = (char *)(news->shards + shards);
	for (size_t i = 0; i < n; i++)
		count[puts[i].shard % HWTS_SHARDS_MAX]++;
	divide(count, begin, text);
	memcpy(end, begin, sizeof(end));
	for (size_t i = 0; i < n; i++)
		end[puts[i].shard % HWTS_SHARDS_MAX] = write_row(end[puts[i].shard % HWTS_SHARDS_MAX], &puts[i]);
	news->n = 0;
	for (size_t i = 0; i < HWTS_SHARDS_MAX; i++) {
		size_t len = (size_t)(end[i] - begin[i]);
		bool fits = len + TIME * count[i] <= NEWS_MAX;

		if (count[i] == 0)
			continue;
		news->shards[news->n] = (int64_t)puts->kind.id * HWTS_SHARDS_MAX + (int64_t)i;
		news->texts[news->n++] = (struct hwts_value){ .bytes = fits ? begin[i] : "r",
							      .len = fits ? len - 1 : 1 };
	}
	return true;
}
