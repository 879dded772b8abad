/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics by kind, and their text for Prometheus, which a small parser reads by the rules of that format. */
#include "store_query.h"

#include "store/store.h"

#include <regex.h>

#define SAMPLES_MAX 2000

struct sample {
	char name[96], labels[512];
	double value;
};

struct page {
	char *text;
	struct sample samples[SAMPLES_MAX];
	size_t count, families;
};

static struct page page;

/* The value of a sample; labels is "" or {kind="..."}, as in the text.  NaN: there is no such sample. */
static double value_of(const char *name, const char *labels)
{
	for (size_t i = 0; i < page.count; i++)
		if (strcmp(page.samples[i].name, name) == 0 && strcmp(page.samples[i].labels, labels) == 0)
			return page.samples[i].value;
	return 0.0 / 0.0;
}

/* What the parser knows from the lines before. */
struct reading {
	char family[96], type[16], seen[64][96];
	bool has_help;
};

/* "# HELP name text" and then "# TYPE name type", once for a name, before its samples. */
static bool read_comment(struct reading *reading, const char *line)
{
	char name[96], type[16];

	if (sscanf(line, "# HELP %95s", name) == 1) {
		for (size_t i = 0; i < page.families; i++)
			if (strcmp(reading->seen[i], name) == 0)
				return false;
		REQUIRE(page.families < HWTS_COUNT(reading->seen));
		strcpy(reading->seen[page.families++], name);
		strcpy(reading->family, name);
		reading->has_help = true;
		return strncmp(name, "hwt_store_", 10) == 0;
	}
	if (sscanf(line, "# TYPE %95s %15s", name, type) != 2 || !reading->has_help)
		return false;
	strcpy(reading->type, type);
	reading->has_help = false;
	return strcmp(name, reading->family) == 0 &&
	       (strcmp(type, "counter") == 0) == (strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0);
}

#define LABEL "[a-zA-Z_][a-zA-Z_0-9]*=\"([^\"\\\\]|\\\\[\\\\\"n])*\""
#define SAMPLE "^([a-z_]+)((\\{" LABEL "(," LABEL ")*\\})?) ([0-9][0-9.e+-]*)$"

/* A sample has the name of its family; a histogram's sample adds an ending. */
static bool belongs(const struct reading *reading, const char *name)
{
	size_t own = strlen(reading->family);

	if (strcmp(reading->type, "histogram") != 0)
		return strcmp(name, reading->family) == 0;
	return strncmp(name, reading->family, own) == 0 &&
	       (strcmp(name + own, "_bucket") == 0 || strcmp(name + own, "_sum") == 0 ||
		strcmp(name + own, "_count") == 0);
}

static void copy_match(char *to, size_t size, const char *line, regmatch_t at)
{
	REQUIRE((size_t)(at.rm_eo - at.rm_so) < size);
	(void)snprintf(to, size, "%.*s", (int)(at.rm_eo - at.rm_so), line + at.rm_so);
}

/* Reads a sample; false if it is there already. */
static bool read_sample(const struct reading *reading, const char *line)
{
	struct sample *sample = &page.samples[page.count];
	regmatch_t at[8];
	regex_t form;
	bool ok;

	REQUIRE(page.count < SAMPLES_MAX && regcomp(&form, SAMPLE, REG_EXTENDED) == 0);
	ok = regexec(&form, line, HWTS_COUNT(at), at, 0) == 0;
	regfree(&form);
	if (!ok || reading->has_help)
		return false;
	copy_match(sample->name, sizeof(sample->name), line, at[1]);
	copy_match(sample->labels, sizeof(sample->labels), line, at[2]);
	sample->value = strtod(line + at[7].rm_so, NULL);
	ok = belongs(reading, sample->name) && !(value_of(sample->name, sample->labels) >= 0);
	page.count += ok;
	return ok;
}

static void read_text(const char *text)
{
	struct reading reading = { .has_help = false };
	char *copy = strdup(text), *rest = copy;

	page.count = page.families = 0;
	CHECK(text[0] != '\0' && text[strlen(text) - 1] == '\n');
	for (const char *line; (line = strsep(&rest, "\n")) && *line;) {
		bool ok = *line == '#' ? read_comment(&reading, line) : read_sample(&reading, line);

		CHECK(ok);
		if (!ok)
			fprintf(stderr, "    %s\n", line);
	}
	CHECK(rest == NULL);
	free(copy);
}

static void read_page(hwt_store *store)
{
	int len = hwt_store_prometheus(store, NULL, 0);

	REQUIRE(len > 0);
	free(page.text);
	page.text = malloc((size_t)len + 4096);
	REQUIRE(page.text != NULL);
	len = hwt_store_prometheus(store, page.text, (size_t)len + 4096);
	CHECK_INT(strlen(page.text), ==, len);
	read_text(page.text);
}

static void end_page(void)
{
	free(page.text);
	page.text = NULL;
}

/* All buckets of a kind: the counts rise, and end with +Inf, whose count is the total. */
static double check_buckets(const char *kind)
{
	char labels[512];
	double last = 0, bound = 0;
	unsigned count = 0;

	(void)snprintf(labels, sizeof(labels), "{kind=\"%s\",le=\"", kind);
	for (size_t i = 0; i < page.count; i++) {
		const struct sample *sample = &page.samples[i];
		double le;

		if (strcmp(sample->name, "hwt_store_lateness_seconds_bucket") != 0 ||
		    strncmp(sample->labels, labels, strlen(labels)) != 0)
			continue;
		le = strtod(sample->labels + strlen(labels), NULL);
		CHECK(le > bound && sample->value >= last);
		bound = le;
		last = sample->value;
		count++;
	}
	CHECK_INT(count, ==, 32);
	CHECK(bound > 1e300); /* +Inf */
	(void)snprintf(labels, sizeof(labels), "{kind=\"%s\"}", kind);
	CHECK(value_of("hwt_store_lateness_seconds_count", labels) == last);
	return last;
}

static int fail_run(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	return hwt_store_give_up(run, "no");
}

/* Each of two kinds has its own numbers, and the store has the sum. */
TEST(a_kind_has_numbers_of_its_own)
{
	hwt_store_stats a = HWT_STORE_STATS_INIT, b = HWT_STORE_STATS_INIT, all;
	CLOSING hwt_store *store = fresh_store();
	uint64_t late = 0;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	register_kind(store, "b", fail_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 16));
	for (int i = 0; i < 3; i++)
		CHECK(wait_gone(store, put(store, "a", -1)));
	CHECK(wait_store_state(store, put(store, "b", -1), HWT_STORE_FAILED));
	(void)put(store, "b", HWT_S(60)); /* the window covers minutes, as the lease does */
	WAIT_FOR(stats_of_store(store).window == 1);
	all = settled_stats(store);
	CHECK_CALL(hwt_store_read_kind_stats(store, "a", &a), 0);
	CHECK_CALL(hwt_store_read_kind_stats(store, "b", &b), 0);
	CHECK_INT(a.size, ==, sizeof(a));
	CHECK_INT(a.begun, >=, 3); /* a row that waits too long for a thread is begun once more */
	CHECK_INT(a.done, ==, 3);
	CHECK_INT(a.failed, ==, 0);
	CHECK_INT(a.shards_held, ==, 8);
	CHECK_INT(a.window, ==, 0);
	CHECK_INT(a.trusted, ==, 1);
	CHECK_INT(a.put, ==, 0);
	CHECK_INT(b.done, ==, 0);
	CHECK_INT(b.failed, ==, 1);
	CHECK_INT(b.window, ==, 1);
	CHECK_INT(all.done, ==, 3);
	CHECK_INT(a.lateness_minute_max_ns, <=, all.lateness_max_ns);
	for (size_t i = 0; i < HWTS_COUNT(a.lateness); i++)
		late += a.lateness[i];
	CHECK_INT(late, ==, 3);
}

TEST(what_makes_no_sense_is_refused)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;
	CLOSING hwt_store *store = fresh_store();
	char small[1] = "x";

	(void)put(store, "a", HWT_S(3600));
	CHECK_CALL(hwt_store_read_kind_stats(NULL, "a", &stats), EINVAL);
	CHECK_CALL(hwt_store_read_kind_stats(store, NULL, &stats), EINVAL);
	CHECK_CALL(hwt_store_read_kind_stats(store, "a", NULL), EINVAL);
	CHECK_CALL(hwt_store_read_kind_stats(store, "a", &stats), ENOENT);
	stats.size = 3;
	CHECK_CALL(hwt_store_read_kind_stats(store, "a", &stats), EINVAL);
	CHECK_INT(hwt_store_prometheus(NULL, small, 1), ==, -EINVAL);
	CHECK_INT(small[0], ==, 'x');
	CHECK_INT(hwt_store_prometheus(store, NULL, 1), ==, -EINVAL);
	CHECK(hwt_store_error()[0] != '\0');
}

/* Moves four timeouts that exist, and one that does not. */
static void move_in_each_way(hwt_store *store, int64_t id)
{
	const hwt_store_when past = { .due_us = now_us() - 1000000 };
	hwt_store_which which = HWT_STORE_WHICH_INIT;
	USER *connection = connect_user();

	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	CHECK_CALL(hwt_store_reschedule(store, id + 1024 * 1024, 0), ENOENT);
	which.kind = "b";
	which.all = true;
	CHECK_CALL(hwt_store_reschedule_ex(store, &which, past, NULL), 0);
	which = (hwt_store_which)HWT_STORE_WHICH_INIT;
	which.id = id;
	CHECK_CALL(hwt_store_reschedule_on(store, connection, &which, past), 0);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
}

TEST(prometheus_reads_what_is_counted)
{
	hwt_store *store = fresh_store();
	int64_t id;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	read_page(store);
	CHECK(value_of("hwt_store_trusted", "") == 0);
	CHECK_CALL(hwt_store_start(store), 0);
	for (int i = 0; i < 3; i++)
		CHECK(wait_gone(store, put(store, "a", -1)));
	id = put(store, "b", HWT_S(3600)); /* no process runs kind b */
	move_in_each_way(store, id);
	(void)settled_stats(store);
	read_page(store);
	CHECK(value_of("hwt_store_put_total", "") == 4);
	CHECK(value_of("hwt_store_rescheduled_total", "") == 4);
	CHECK(value_of("hwt_store_trusted", "") == 1);
	CHECK(value_of("hwt_store_done_total", "{kind=\"a\"}") == 3);
	CHECK(value_of("hwt_store_failed_total", "{kind=\"a\"}") == 0);
	CHECK(value_of("hwt_store_shards_held", "{kind=\"a\"}") == 8);
	CHECK(value_of("hwt_store_kind_processes", "{kind=\"a\"}") == 1);
	CHECK(value_of("hwt_store_kind_processes", "{kind=\"b\"}") == 0);
	CHECK(value_of("hwt_store_kind_overdue_seconds", "{kind=\"a\"}") == 0);
	CHECK(value_of("hwt_store_kind_overdue_seconds", "{kind=\"b\"}") > 0);
	CHECK(value_of("hwt_store_database_up", "") == 1);
	CHECK(check_buckets("a") == 3);
	CHECK(value_of("hwt_store_lateness_seconds_sum", "{kind=\"a\"}") > 0);
	(void)query("update %s_timeout set state = 3, shard = -1 - shard where id = %lld", world.schema, (long long)id);
	(void)query("update %s_kind set paused = %s where name = 'b'", world.schema, world.sqlite ? "1" : "true");
	read_page(store);
	CHECK(value_of("hwt_store_kind_failed", "{kind=\"b\"}") == 1);
	CHECK(value_of("hwt_store_kind_paused", "{kind=\"b\"}") == 1);
	CHECK(value_of("hwt_store_kind_paused", "{kind=\"a\"}") == 0);
	CHECK(value_of("hwt_store_kind_overdue_seconds", "{kind=\"b\"}") == 0);
	CHECK_CALL(hwt_store_close(store), 0);
	end_page();
}

TEST(names_are_escaped)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a \"b\" \\ c\nd", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	read_page(store);
	CHECK(value_of("hwt_store_begun_total", "{kind=\"a \\\"b\\\" \\\\ c\\nd\"}") == 0);
	CHECK(value_of("hwt_store_kind_failed", "{kind=\"a \\\"b\\\" \\\\ c\\nd\"}") == 0);
	CHECK_CALL(hwt_store_close(store), 0);
	end_page();
}

/* No byte of a name acts on the terminal that shows the page, and no two names give the same label. */
TEST(controls_in_names_are_escaped)
{
	static const struct {
		const char *name, *label;
	} rows[] = {
		{ "a\033[2J\r\n", "a\\\\x1b[2J\\\\x0d\\n" },
		{ "a\\x1b", "a\\\\x5cx1b" },
		{ "\302\205\302\240\177", "\\\\xc2\\\\x85\302\240\\\\x7f" },
		{ "\330\234\330\235", "\\\\xd8\\\\x9c\330\235" },
		{ "\342\200\256\342\200\257", "\\\\xe2\\\\x80\\\\xae\342\200\257" },
		{ "\342\200\216\342\200\246", "\\\\xe2\\\\x80\\\\x8e\342\200\246" },
		{ "\342\201\251\342\201\252", "\\\\xe2\\\\x81\\\\xa9\342\201\252" },
	};
	hwt_store *store = fresh_store();
	char most[HWTS_NAME_MAX + 1] = "";

	memset(most, 1, HWTS_NAME_MAX);
	register_kind(store, most, count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	for (size_t i = 0; i < HWTS_COUNT(rows); i++)
		register_kind(store, rows[i].name, count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	read_page(store);
	for (size_t i = 0; i < HWTS_COUNT(rows); i++) {
		char label[128];

		(void)snprintf(label, sizeof(label), "{kind=\"%s\"}", rows[i].label);
		CHECK(value_of("hwt_store_begun_total", label) == 0);
		CHECK(value_of("hwt_store_kind_failed", label) == 0);
	}
	CHECK_CALL(hwt_store_close(store), 0);
	end_page();
}

/* A buffer of any length gets whole lines, and the returned length is that of the whole text. */
TEST(a_short_buffer_has_whole_lines)
{
	CLOSING hwt_store *store = fresh_store();
	char buf[3000];

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	for (size_t size = 1; size < sizeof(buf); size += size < 200 ? 1 : 97) {
		size_t len;

		memset(buf, 'x', sizeof(buf));
		CHECK_INT(hwt_store_prometheus(store, buf, size), >, sizeof(buf));
		len = strnlen(buf, sizeof(buf));
		CHECK_INT(len, <, size);
		CHECK(len == 0 || buf[len - 1] == '\n');
		CHECK(size < 200 || len > size - 150);
		for (size_t i = size; i < sizeof(buf); i++)
			REQUIRE(buf[i] == 'x');
	}
}

/* The process's own numbers are there without the database. */
TEST(a_database_that_is_away_is_no_failure)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	(void)query("drop view %s_kinds", world.schema);
	(void)query("drop view %s_timeouts", world.schema);
	(void)query("alter table %s_kind rename to %s_gone", world.schema, world.schema);
	read_page(store);
	CHECK(value_of("hwt_store_database_up", "") == 0);
	CHECK(value_of("hwt_store_begun_total", "{kind=\"a\"}") == 0);
	CHECK(!(value_of("hwt_store_kind_failed", "{kind=\"a\"}") >= 0));
	CHECK(hwt_store_error()[0] == '\0');
	CHECK_CALL(hwt_store_close(store), 0);
	end_page();
}

STORE_MAIN(NULL)
