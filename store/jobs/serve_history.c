/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How late each kind was, and how much of it started, in the last ten minutes.  A thread looks each five seconds, whether
 * or not somebody watches, so that who comes at night sees since when a kind stands still.
 */
#include "serve.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_S 5
#define POINTS (600 / EVERY_S)
#define KINDS 500

struct point {
	int64_t overdue_us, started; /* started: within a minute, as its processes told last */
	bool known;
};

struct track {
	char kind[64];
	struct point points[POINTS], next; /* next: of the look that is under way */
};

struct history {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ends;
	bool over;
	struct server *server;
	size_t at, n; /* the place of the next point; kinds */
	struct track *tracks;
};

/* With the lock.  NULL: there are too many kinds, or there is no memory. */
static struct track *track_of(struct history *history, const char *kind)
{
	struct track *more;

	for (size_t i = 0; i < history->n; i++)
		if (strcmp(history->tracks[i].kind, kind) == 0)
			return &history->tracks[i];
	more = history->n < KINDS ? realloc(history->tracks, (history->n + 1) * sizeof(*more)) : NULL;
	if (!more)
		return NULL;
	history->tracks = more;
	more += history->n++;
	*more = (struct track){ .kind = "" };
	(void)snprintf(more->kind, sizeof(more->kind), "%s", kind);
	return more;
}

/* What a look has seen is published at once.  All: the database told of each kind, the others are gone.  Otherwise what
 * was not told of has a gap. */
static void publish(struct history *history, bool all)
{
	size_t kept = 0;

	pthread_mutex_lock(&history->lock);
	for (size_t i = 0; i < history->n; i++) {
		struct track *track = &history->tracks[i];

		if (all && !track->next.known)
			continue;
		track->points[history->at] = track->next;
		track->next.known = false;
		if (kept != i)
			history->tracks[kept] = *track;
		kept++;
	}
	history->n = kept;
	history->at = (history->at + 1) % POINTS;
	pthread_mutex_unlock(&history->lock);
}

struct look {
	struct history *history;
	int64_t now_us;
};

static bool note_kind(void *ctx, const hwt_store_kind_info *info)
{
	struct look *look = ctx;
	bool late = info->oldest_due_us && info->oldest_due_us < look->now_us;
	struct track *track;

	pthread_mutex_lock(&look->history->lock);
	track = track_of(look->history, info->kind);
	if (track)
		track->next = (struct point){ late ? look->now_us - info->oldest_due_us : 0,
					      (int64_t)info->started_minute, true };
	pthread_mutex_unlock(&look->history->lock);
	return true;
}

static void look_once(struct history *history)
{
	struct look look = { history, wall_us() };
	bool all = false;

	if (begin_call(history->server)) {
		all = hwt_store_each_kind(history->server->jobs->store, note_kind, &look) == 0;
		end_call(history->server);
	}
	publish(history, all);
}

static void *run_history(void *arg)
{
	struct history *history = arg;
	int64_t next_us = wall_us();
	bool over = false;

	while (!over) {
		struct timespec until;

		look_once(history);
		next_us += EVERY_S * INT64_C(1000000);
		if (next_us < wall_us())
			next_us = wall_us() + EVERY_S * INT64_C(1000000);
		until = (struct timespec){ .tv_sec = (time_t)(next_us / 1000000) };
		pthread_mutex_lock(&history->lock);
		if (!history->over)
			(void)pthread_cond_timedwait(&history->ends, &history->lock, &until);
		over = history->over;
		pthread_mutex_unlock(&history->lock);
	}
	return NULL;
}

struct history *history_begin(struct server *server)
{
	struct history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->server = server;
	pthread_mutex_init(&history->lock, NULL);
	pthread_cond_init(&history->ends, NULL);
	if (pthread_create(&history->thread, NULL, run_history, history) == 0)
		return history;
	free(history);
	return NULL;
}

void history_end(struct history *history)
{
	pthread_mutex_lock(&history->lock);
	history->over = true;
	pthread_cond_signal(&history->ends);
	pthread_mutex_unlock(&history->lock);
	pthread_join(history->thread, NULL);
	pthread_cond_destroy(&history->ends);
	pthread_mutex_destroy(&history->lock);
	free(history->tracks);
	free(history);
}

static void write_points(FILE *out, const struct history *history, const struct track *track, bool starts)
{
	for (size_t i = 0; i < POINTS; i++) {
		const struct point *point = &track->points[(history->at + i) % POINTS];

		fputs(i ? "," : "", out);
		if (point->known)
			fprintf(out, "%" PRId64, starts ? point->started : point->overdue_us);
		else
			fputs("null", out);
	}
}

struct answer answer_history(struct request *request, const char *name)
{
	struct history *history = request->server->history;
	struct answer answer = { .status = MHD_HTTP_OK };
	FILE *out = open_memstream(&answer.text, &answer.len);

	(void)name;
	if (!out)
		return no_memory(MHD_HTTP_SERVICE_UNAVAILABLE);
	fprintf(out, "{\"every_s\": %d, \"kinds\": {", EVERY_S);
	pthread_mutex_lock(&history->lock);
	for (size_t i = 0; i < history->n; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_text(out, history->tracks[i].kind);
		fputs(": {\"overdue_us\": [", out);
		write_points(out, history, &history->tracks[i], false);
		fputs("], \"started_minute\": [", out);
		write_points(out, history, &history->tracks[i], true);
		fputs("]}", out);
	}
	pthread_mutex_unlock(&history->lock);
	fputs("}}\n", out);
	return end_answer(out, &answer);
}
