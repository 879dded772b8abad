/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A page of a list: some rows, and the cursor with which the next page begins.
 *
 * The cursor is the place of the last row that was looked at: its due time, its id, and its kind if the list is of all.
 * No row before that place is read again.  What has no index, the beginning of a key, is looked for in LOOKS rows at
 * most; then the page ends, and the cursor says where to go on.
 */
#include "serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 100
#define ROWS_MOST 500
#define LOOKS 20000
#define LOOKS_WITH_DATA 2000
#define BYTES ((size_t)4 << 20) /* of data in a page */

struct listing {
	struct jobs *jobs;
	const struct part *part;
	int64_t limit, count, looks;
	size_t bytes;
	int64_t due_us, id; /* the last row */
	char kind[64];
	bool more;
};

static bool list_row(void *ctx, const hwt_store_info *info)
{
	struct listing *listing = ctx;
	const struct part *part = listing->part;
	FILE *out = listing->jobs->out;

	if (listing->count == listing->limit || listing->bytes > BYTES ||
	    listing->looks == (part->no_data ? LOOKS : LOOKS_WITH_DATA)) {
		listing->more = true;
		return false;
	}
	listing->looks++;
	listing->due_us = info->due_us;
	listing->id = info->id;
	memcpy(listing->kind, info->kind, sizeof(listing->kind));
	if (part->prefix && strncmp(info->key, part->prefix, strlen(part->prefix)) != 0)
		return true;
	fputs(listing->count++ ? ",\n" : "\n", out);
	json_info(out, info, !part->no_data);
	listing->bytes += part->no_data ? 0 : info->len;
	return !ferror(out);
}

static int list_kind(struct listing *listing, const char *kind, int64_t after_us, int64_t after_id)
{
	hwt_store_which which = all_of(listing->jobs, kind);
	int rc;

	if (!listing->part->no_data)
		which.states |= HWT_STORE_WITH_DATA;
	which.after_us = after_us;
	which.after_id = after_id;
	rc = hwt_store_each_ex(listing->jobs->store, &which, list_row, listing);
	return rc == ENOENT ? 0 : rc;
}

/* DUE.ID, and .KIND behind it if the list is of all kinds. */
static bool read_cursor(const char *text, bool of_one, int64_t *us, int64_t *id, const char **kind)
{
	char *end = NULL;

	errno = 0;
	*us = strtoll(text, &end, 10);
	if (end == text || *end != '.' || *us < 0)
		return false;
	text = end + 1;
	*id = strtoll(text, &end, 10);
	*kind = of_one ? NULL : end + 1;
	return end != text && errno == 0 && *id > 0 && (of_one ? *end == '\0' : *end == '.');
}

static void end_list(struct listing *listing)
{
	FILE *out = listing->jobs->out;
	char cursor[128];

	(void)snprintf(cursor, sizeof(cursor), "%" PRId64 ".%" PRId64 "%s%s", listing->due_us, listing->id,
		       listing->jobs->n == 1 ? "" : ".", listing->jobs->n == 1 ? "" : listing->kind);
	fputs(listing->count ? "\n], \"next\": " : "], \"next\": ", out);
	if (listing->more)
		json_text(out, cursor);
	else
		fputs("null", out);
	fputs("}\n", out);
}

int list_part(struct jobs *jobs, const struct part *part)
{
	struct listing listing = { .jobs = jobs, .part = part, .limit = jobs->limit ? jobs->limit : ROWS };
	struct names names = { .n = 0 };
	int64_t after_us = 0, after_id = 0;
	const char *begin = NULL;
	int rc = jobs->n == 1 ? find_kind(jobs, jobs->words[0]) : DONE;

	if (rc != DONE)
		return rc;
	if (part->after && !read_cursor(part->after, jobs->n == 1, &after_us, &after_id, &begin))
		return complain(jobs, "after is what the page before gave as next");
	listing.limit = listing.limit > ROWS_MOST ? ROWS_MOST : listing.limit;
	fputs("{\"list\": [", jobs->out);
	if (jobs->n == 1)
		rc = list_kind(&listing, jobs->words[0], after_us, after_id);
	else
		rc = read_names(jobs->store, &names);
	for (size_t i = 0; i < names.n && rc == 0 && !listing.more; i++) {
		bool here = begin && strcmp(names.names[i], begin) == 0;

		if (!begin || here)
			rc = list_kind(&listing, names.names[i], here ? after_us : 0, here ? after_id : 0);
		begin = here ? NULL : begin;
	}
	free(names.names);
	if (rc != 0)
		return report(jobs, rc, "list");
	if (begin)
		return complain(jobs, "after is in a kind that has gone: begin the list again");
	end_list(&listing);
	return DONE;
}
