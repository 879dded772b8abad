/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written: JSON, colours, columns, a bar for what takes long. */
#include "jobs.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

const char *paint(const struct jobs *jobs, enum colour colour)
{
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m" };

	return jobs->colours ? codes[colour] : "";
}

/* The bytes of a character of UTF-8 at text, and the character; 0: it is none. */
static size_t character(const char *text, size_t len, unsigned *value)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned first = (unsigned char)text[0];
	size_t n = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;

	*value = n == 1 ? first : n > 1 ? first & (0x7fu >> n) : 0;
	if (n == 0 || n > len || first > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*value = *value << 6 | (text[i] & 0x3f);
	}
	return (n > 1 && *value < least[n]) || (*value >= 0xd800 && *value < 0xe000) || *value > 0x10ffff ? 0 : n;
}

/* C0 and C1, and what ends a line or turns the direction of the text beside it. */
static bool is_control(unsigned value)
{
	return value < 0x20 || (value >= 0x7f && value < 0xa0) || value == 0x61c || value == 0x200e ||
	       value == 0x200f || (value >= 0x2028 && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
}

/* Columns of a character on a terminal; -1: it cannot be shown. */
static int columns_of(unsigned value)
{
	static int known = -1;

	if (known < 0) /* the C library knows widths in a locale of UTF-8 alone */
		known = setlocale(LC_CTYPE, "C.UTF-8") && wcwidth(0x4e2d) == 2;
	return is_control(value) ? -1 : known ? wcwidth((wchar_t)value) : 1;
}

bool is_text(const void *data, size_t len)
{
	const char *text = data;
	unsigned value;

	for (size_t i = 0, n; i < len; i += n) {
		n = character(text + i, len - i, &value);
		if (n == 0 || (is_control(value) && value != '\n' && value != '\t'))
			return false;
	}
	return true;
}

bool is_utf8(const char *text, size_t len)
{
	unsigned value;

	for (size_t i = 0, n; i < len; i += n) {
		n = character(text + i, len - i, &value);
		if (n == 0)
			return false;
	}
	return true;
}

/* Writes a JSON string.  A byte that is in no character becomes U+FFFD. */
static void json_bytes(FILE *out, const char *text, size_t len)
{
	unsigned value;

	fputc('"', out);
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		n = character(text + i, len - i, &value);
		if (n == 0)
			fputs("\\ufffd", out);
		else if (value == '"' || value == '\\')
			fprintf(out, "\\%c", text[i]);
		else if (is_control(value))
			fprintf(out, "\\u%04x", value);
		else
			fwrite(text + i, 1, n, out);
	}
	fputc('"', out);
}

void json_text(FILE *out, const char *text)
{
	json_bytes(out, text, strlen(text));
}

/*
 * Writes as many characters as have room in `most` columns: "?" for one that cannot be shown and is none of also.
 * Returns the columns.  out NULL: only counts.
 */
static int show_text(FILE *out, const char *text, int most, const char *also)
{
	int used = 0;
	unsigned value;

	for (size_t len = strlen(text), n; len > 0; text += n, len -= n) {
		int columns;

		n = character(text, len, &value);
		columns = n == 0 ? -1 : strchr(also, *text) ? 0 : columns_of(value);
		if ((columns < 0 ? 1 : columns) > most - used)
			break;
		if (out && columns < 0)
			fputc('?', out);
		else if (out)
			fwrite(text, 1, n, out);
		used += columns < 0 ? 1 : columns;
		n = n ? n : 1;
	}
	return used;
}

void print_plain(FILE *out, const char *text)
{
	(void)show_text(out, text, INT_MAX, "\n\t");
}

void json_member(FILE *out, bool *first, const char *name)
{
	fprintf(out, *first ? "\"%s\": " : ", \"%s\": ", name);
	*first = false;
}

void json_data(FILE *out, bool *first, const void *data, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *bytes = data;

	if (is_utf8(data, len)) {
		json_member(out, first, "data");
		json_bytes(out, data, len);
		return;
	}
	json_member(out, first, "data_base64");
	fputc('"', out);
	for (size_t i = 0; i < len; i += 3) {
		unsigned two = i + 1 < len ? bytes[i + 1] : 0, three = i + 2 < len ? bytes[i + 2] : 0;
		unsigned all = (unsigned)bytes[i] << 16 | two << 8 | three;

		fputc(digits[all >> 18], out);
		fputc(digits[all >> 12 & 63], out);
		fputc(i + 1 < len ? digits[all >> 6 & 63] : '=', out);
		fputc(i + 2 < len ? digits[all & 63] : '=', out);
	}
	fputc('"', out);
}

void print_cut(const char *text, int width)
{
	/* A character has two columns at most: one that does not fit leaves one of these two free. */
	bool fits = width == 0 || show_text(NULL, text, width + 2, "") <= width;
	int used = show_text(stdout, text, fits ? INT_MAX : width - 1, "");

	if (!fits) {
		fputs("…", stdout);
		used++;
	}
	printf("%*s", width > used ? width - used : 0, "");
}

int terminal_columns(void)
{
	struct winsize size = { .ws_col = 0 };

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 132;
}

/*
 * A bar, on stderr while a call is under way: its thread asks the store how far that is
 */

struct bar {
	const struct jobs *jobs;
	const char *doing;
	uint64_t total, before;
	int64_t began_ns;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool over;
};

static uint64_t changed(const struct jobs *jobs)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	return hwt_store_read_stats(jobs->store, &stats) == 0 ? stats.cancelled + stats.rescheduled : 0;
}

static void draw(const struct bar *bar)
{
	enum { WIDTH = 30 };
	uint64_t n = changed(bar->jobs) - bar->before;
	double a_second = (double)n * 1e9 / (double)(hwt_now() - bar->began_ns);
	int full = bar->total > 0 && n < bar->total ? (int)(n * WIDTH / bar->total) : WIDTH;

	if (bar->total == 0)
		fprintf(stderr, "\r%s %" PRIu64 ", %.0f a second\033[K", bar->doing, n, a_second);
	else
		fprintf(stderr, "\r%s [%.*s%*s] %" PRIu64 " of %" PRIu64 ", %.0f a second\033[K", bar->doing, full,
			"##############################", WIDTH - full, "", n, bar->total, a_second);
}

static void *show_bar(void *arg)
{
	struct bar *bar = arg;

	pthread_mutex_lock(&bar->lock);
	while (!bar->over) {
		struct timespec until;
		int64_t at_us = wall_us() + 200000;

		until = (struct timespec){ .tv_sec = (time_t)(at_us / 1000000),
					   .tv_nsec = (long)(at_us % 1000000) * 1000 };
		(void)pthread_cond_timedwait(&bar->ended, &bar->lock, &until);
		if (!bar->over)
			draw(bar);
	}
	pthread_mutex_unlock(&bar->lock);
	return NULL;
}

struct bar *bar_begin(const struct jobs *jobs, const char *doing, uint64_t total)
{
	struct bar *bar = jobs->err == stderr && isatty(STDERR_FILENO) ? calloc(1, sizeof(*bar)) : NULL;

	if (!bar)
		return NULL;
	*bar = (struct bar){
		.jobs = jobs, .doing = doing, .total = total, .before = changed(jobs), .began_ns = hwt_now()
	};
	pthread_mutex_init(&bar->lock, NULL);
	pthread_cond_init(&bar->ended, NULL);
	if (pthread_create(&bar->thread, NULL, show_bar, bar) == 0)
		return bar;
	free(bar);
	return NULL;
}

void bar_end(struct bar *bar)
{
	if (!bar)
		return;
	pthread_mutex_lock(&bar->lock);
	bar->over = true;
	pthread_cond_signal(&bar->ended);
	pthread_mutex_unlock(&bar->lock);
	pthread_join(bar->thread, NULL);
	fputs("\r\033[K", stderr);
	free(bar);
}

/* A script has said it by its options. */
bool asks(const struct jobs *jobs)
{
	return !jobs->yes && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool confirm(const char *what)
{
	char answer[16];

	print_plain(stderr, what);
	fputs("? [y/N] ", stderr);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}
