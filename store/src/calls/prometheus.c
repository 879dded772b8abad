/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics as text for Prometheus.
 *
 * A family has its HELP and TYPE once, then a sample for each kind.  Numbers of this process are read at once under the
 * lock; those of the database come from one list of kinds, and are left out if the database does not answer.
 */
#include "store/kind.h"
#include "store/conns.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct kind {
	char name[6 * HWTS_NAME_MAX + 1]; /* with escapes */
	hwt_store_stats stats;
	int64_t lateness_sum_ns;
};

struct text {
	char *buf;
	size_t size, len; /* len: of the whole text, also beyond size */
	size_t whole;     /* length of the lines that fit into buf */

	struct kind *kinds; /* of this process */
	size_t count;
	hwt_store_stats stats;
	hwt_store_kind_info *infos; /* of the database */
	size_t info_count;
	int64_t now_us;
};

/* Writes a line with its end.  A line that does not fit is only counted. */
__attribute__((format(printf, 2, 3))) static void line(struct text *text, const char *format, ...)
{
	size_t left = text->len < text->size ? text->size - text->len : 0;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(left ? text->buf + text->len : NULL, left, format, args);
	va_end(args);
	text->len += (size_t)HWTS_MAX(n, 0);
	if (text->len < text->size)
		text->whole = text->len;
}

static void head(struct text *text, const char *name, const char *type, const char *help)
{
	line(text, "# HELP hwt_store_%s %s\n", name, help);
	line(text, "# TYPE hwt_store_%s %s\n", name, type);
}

/*
 * Returns the length of a character that acts on a terminal (C0, C1, line ends, direction of text); 0: another
 * character.
 */
static size_t control_len(const char *at)
{
	unsigned char first = (unsigned char)at[0], second = first >= 0x80 ? (unsigned char)at[1] : 0;
	unsigned char third = first >= 0xe0 ? (unsigned char)at[2] : 0;

	if (first < 0x20 || first == 0x7f)
		return 1;
	if (first == 0xc2 && second < 0xa0)
		return 2;
	if (first == 0xd8 && second == 0x9c) /* U+061C */
		return 2;
	if (first == 0xe2 && second == 0x80) /* U+200E, U+200F, U+2028 to U+202E */
		return third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae) ? 3 : 0;
	return first == 0xe2 && second == 0x81 && third >= 0xa6 && third <= 0xa9 ? 3 : 0; /* U+2066 to U+2069 */
}

/*
 * Writes the value of a label.  Backslash, quote and line end are escaped as the format demands.  Other control
 * characters become \xNN, and a backslash before an x becomes \x5c, so no two names look alike.
 */
static void escape(char *to, const char *name)
{
	static const char digits[] = "0123456789abcdef";

	while (*name) {
		size_t hidden = name[0] == '\\' && name[1] == 'x' ? 1 : *name == '\n' ? 0 : control_len(name);

		if (hidden == 0) {
			if (*name == '\\' || *name == '"' || *name == '\n')
				*to++ = '\\';
			*to++ = *name == '\n' ? 'n' : *name;
			name++;
		}
		for (; hidden > 0; hidden--, name++, to += 5) {
			memcpy(to, "\\\\x", 3);
			to[3] = digits[(unsigned char)*name >> 4];
			to[4] = digits[(unsigned char)*name & 15];
		}
	}
	*to = '\0';
}

/*
 * Numbers of this process
 */

struct family {
	const char *name, *type, *help;
	size_t at; /* offset of the number in hwt_store_stats */
	bool ns;   /* in nanoseconds */
};

#define AT(member) offsetof(hwt_store_stats, member)

static const struct family of_process[] = {
	{ "put_total", "counter", "Timeouts that this process has put.", AT(put), false },
	{ "rescheduled_total", "counter", "Timeouts that this process has moved.", AT(rescheduled), false },
	{ "cancelled_total", "counter", "Cancels that ended a timeout.", AT(cancelled), false },
	{ "taken_over_total", "counter", "Shards taken from a process whose lease had ended.", AT(taken_over), false },
	{ "lost_leases_total", "counter", "Times that this process lost its lease.", AT(lost_leases), false },
	{ "reconnects_total", "counter", "Connections that were made again.", AT(reconnects), false },
	{ "round_trips_total", "counter", "Round trips to the database.", AT(round_trips), false },
	{ "trusted", "gauge", "1: started, and may begin timeouts.", AT(trusted), false },
};

static const struct family of_kind[] = {
	{ "begun_total", "counter", "Timeouts that were begun.", AT(begun), false },
	{ "done_total", "counter", "Runs that were done.", AT(done), false },
	{ "retried_total", "counter", "Runs that failed and are tried again.", AT(retried), false },
	{ "failed_total", "counter", "Timeouts that became FAILED.", AT(failed), false },
	{ "set_aside_total", "counter", "Begins and ends that the database refused for good.", AT(set_aside), false },
	{ "window", "gauge", "Timeouts that are due soon and wait in memory.", AT(window), false },
	{ "running", "gauge", "Timeouts that are begun and not ended.", AT(running), false },
	{ "shards_held", "gauge", "Shards that this process holds.", AT(shards_held), false },
	{ "overdue", "gauge", "Timeouts that are due and have not started.", AT(overdue), false },
	{ "overdue_oldest_seconds", "gauge", "How long the oldest of them has been due.", AT(overdue_oldest_ns), true },
	{ "lateness_minute_max_seconds", "gauge", "The latest start within the last minute.",
	  AT(lateness_minute_max_ns), true },
};

static void sample(struct text *text, const struct family *family, const char *labels, const hwt_store_stats *stats)
{
	uint64_t value;

	memcpy(&value, (const char *)stats + family->at, sizeof(value));
	if (family->ns)
		line(text, "hwt_store_%s%s %.9f\n", family->name, labels, (double)value / 1e9);
	else
		line(text, "hwt_store_%s%s %" PRIu64 "\n", family->name, labels, value);
}

static void put_families(struct text *text)
{
	char labels[6 * HWTS_NAME_MAX + 16];

	for (size_t i = 0; i < HWTS_COUNT(of_process); i++) {
		head(text, of_process[i].name, of_process[i].type, of_process[i].help);
		sample(text, &of_process[i], "", &text->stats);
	}
	for (size_t i = 0; i < HWTS_COUNT(of_kind) && text->count > 0; i++) {
		head(text, of_kind[i].name, of_kind[i].type, of_kind[i].help);
		for (size_t k = 0; k < text->count; k++) {
			(void)snprintf(labels, sizeof(labels), "{kind=\"%s\"}", text->kinds[k].name);
			sample(text, &of_kind[i], labels, &text->kinds[k].stats);
		}
	}
}

static void put_waits(struct text *text)
{
	if (text->count > 0)
		head(text, "waiting", "gauge", "Timeouts that are due and have not started, by the reason.");
	for (size_t k = 0; k < text->count; k++)
		for (size_t i = 0; i < HWT_STORE_WAITS; i++)
			line(text, "hwt_store_waiting{kind=\"%s\",reason=\"%s\"} %" PRIu64 "\n", text->kinds[k].name,
			     hwts_wait_word(i), text->kinds[k].stats.waiting[i]);
	if (text->count > 0)
		head(text, "waiting_oldest_seconds", "gauge", "How long the oldest of them has been due.");
	for (size_t k = 0; k < text->count; k++)
		for (size_t i = 0; i < HWT_STORE_WAITS; i++)
			line(text, "hwt_store_waiting_oldest_seconds{kind=\"%s\",reason=\"%s\"} %.9f\n",
			     text->kinds[k].name, hwts_wait_word(i),
			     (double)text->kinds[k].stats.waiting_oldest_ns[i] / 1e9);
}

/* lateness[i] counts runs that were less than 2^i us late. */
static void put_lateness(struct text *text)
{
	if (text->count > 0)
		head(text, "lateness_seconds", "histogram", "How long after its due time a run started.");
	for (size_t k = 0; k < text->count; k++) {
		const struct kind *kind = &text->kinds[k];
		uint64_t below = 0;

		for (size_t i = 0; i < HWTS_COUNT(kind->stats.lateness) - 1; i++) {
			below += kind->stats.lateness[i];
			line(text, "hwt_store_lateness_seconds_bucket{kind=\"%s\",le=\"%.10g\"} %" PRIu64 "\n",
			     kind->name, (double)(UINT64_C(1) << i) / 1e6, below);
		}
		below += kind->stats.lateness[HWTS_COUNT(kind->stats.lateness) - 1];
		line(text, "hwt_store_lateness_seconds_bucket{kind=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", kind->name,
		     below);
		line(text, "hwt_store_lateness_seconds_sum{kind=\"%s\"} %.9f\n", kind->name,
		     (double)kind->lateness_sum_ns / 1e9);
		line(text, "hwt_store_lateness_seconds_count{kind=\"%s\"} %" PRIu64 "\n", kind->name, below);
	}
}

/* Reads the registered kinds and their statistics. */
static int read_kinds(hwt_store *store, struct text *text)
{
	size_t n = 0;

	hwts_lock(store);
	hwts_stats_now(store, &text->stats);
	text->count = hwts_kind_count(store);
	text->kinds = text->count ? hwts_alloc(text->count * sizeof(*text->kinds)) : NULL;
	if (text->kinds)
		HWTS_EACH_KIND (store, kind) {
			escape(text->kinds[n].name, kind->name);
			text->kinds[n].lateness_sum_ns = kind->tally.lateness_sum_ns;
			hwts_stats_of_kind(store, kind, &text->kinds[n++].stats);
		}
	hwts_unlock(store);
	return text->count && !text->kinds ? ENOMEM : 0;
}

/*
 * Numbers of the database
 */

static const struct family of_database[] = {
	{ "kind_paused", "gauge", "1: the kind is paused.", 0, false },
	{ "kind_processes", "gauge", "Living processes that run the kind.", 0, false },
	{ "kind_failed", "gauge", "FAILED timeouts of the kind; 1001: more than 1000.", 0, false },
	{ "kind_overdue_seconds", "gauge", "How long its oldest pending timeout has been due.", 0, true },
};

static void put_database(struct text *text, bool up)
{
	head(text, "database_up", "gauge", "1: the database has answered.");
	line(text, "hwt_store_database_up %d\n", up);
	for (size_t i = 0; i < HWTS_COUNT(of_database) && text->info_count > 0; i++) {
		head(text, of_database[i].name, of_database[i].type, of_database[i].help);
		for (const hwt_store_kind_info *is = text->infos; is < text->infos + text->info_count; is++) {
			bool due = is->oldest_due_us != 0 && is->oldest_due_us < text->now_us;
			const double values[] = { is->paused, is->processes, (double)is->failed,
						  due ? (double)(text->now_us - is->oldest_due_us) / 1e6 : 0 };
			char name[6 * HWTS_NAME_MAX + 1];

			escape(name, is->kind);
			line(text, "hwt_store_%s{kind=\"%s\"} %.*f\n", of_database[i].name, name,
			     of_database[i].ns ? 6 : 0, values[i]);
		}
	}
}

static void put_kind_waits(struct text *text)
{
	if (text->info_count == 0)
		return;
	head(text, "kind_waiting", "gauge",
	     "As hwt_store_waiting, of all living processes, and the same from each: max, not sum. lease also counts "
	     "shards that no process holds; nobody is 1.");
	for (const hwt_store_kind_info *is = text->infos; is < text->infos + text->info_count; is++) {
		char name[6 * HWTS_NAME_MAX + 1];

		escape(name, is->kind);
		for (size_t i = HWT_STORE_STARTS + 1; i < HWT_STORE_WAITS; i++)
			line(text, "hwt_store_kind_waiting{kind=\"%s\",reason=\"%s\"} %" PRIu64 "\n", name,
			     hwts_wait_word(i), is->waiting[i]);
	}
}

static bool read_database(hwt_store *store, struct text *text)
{
	struct hwts_conn *conn;

	return hwts_conns_get(store, &conn) == 0 &&
	       hwts_conns_put(store, conn, hwts_rows_kinds(conn, &text->infos, &text->info_count, &text->now_us)) == 0;
}

int hwt_store_prometheus(hwt_store *store, char *buf, size_t size)
{
	struct hwts_call call = hwts_enter();
	struct text text = { .buf = buf, .size = size };
	int rc = hwts_check_store(store);

	if (rc == 0 && size > 0 && !buf)
		rc = hwts_fail(EINVAL, "the buffer is NULL");
	if (rc == 0)
		rc = read_kinds(store, &text);
	if (rc == 0) {
		bool up = read_database(store, &text);

		put_families(&text);
		put_waits(&text);
		put_lateness(&text);
		put_database(&text, up);
		put_kind_waits(&text);
		if (size > 0)
			buf[text.whole] = '\0';
		(void)hwts_enter(); /* clears the text: a database that is away is no failure of this call */
	}
	free(text.kinds);
	free(text.infos);
	(void)hwts_leave(call, rc);
	return rc == 0 ? (int)text.len : -rc;
}
