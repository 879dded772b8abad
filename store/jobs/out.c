/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written: JSON, colours, columns, a bar for what takes long. */
#include "jobs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *paint(const struct jobs *jobs, enum colour colour)
{
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m" };

	return jobs->colours ? codes[colour] : "";
}

/* The bytes of a character of UTF-8 at text; 0: it is none. */
static size_t character(const unsigned char *text, size_t len)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc0 ? 2 : 0;
	unsigned value = n == 1 ? text[0] : n > 1 ? text[0] & (0x7fu >> n) : 0;

	if (n == 0 || n > len || text[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (text[i] & 0x3f);
	}
	return (n > 1 && value < least[n]) || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff ? 0 : n;
}

bool is_text(const void *data, size_t len)
{
	const unsigned char *text = data;

	for (size_t i = 0, n; i < len; i += n) {
		n = character(text + i, len - i);
		if (n == 0 || text[i] == 0x7f || (text[i] < 0x20 && text[i] != '\n' && text[i] != '\t') ||
		    (text[i] == 0xc2 && text[i + 1] < 0xa0))
			return false;
	}
	return true;
}

static bool is_utf8(const unsigned char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = character(text + i, len - i);
		if (n == 0)
			return false;
	}
	return true;
}

/* What is no character becomes U+FFFD. */
static void json_bytes(FILE *out, const unsigned char *text, size_t len)
{
	fputc('"', out);
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		n = character(text + i, len - i);
		if (n == 0)
			fputs("\\ufffd", out);
		else if (text[i] == '"' || text[i] == '\\')
			fprintf(out, "\\%c", text[i]);
		else if (text[i] < 0x20 || text[i] == 0x7f)
			fprintf(out, "\\u%04x", text[i]);
		else
			fwrite(text + i, 1, n, out);
	}
	fputc('"', out);
}

void json_text(FILE *out, const char *text)
{
	json_bytes(out, (const unsigned char *)text, strlen(text));
}

void print_plain(FILE *out, const char *text)
{
	for (size_t len = strlen(text), n; len > 0; text += n, len -= n) {
		n = character((const unsigned char *)text, len);
		n = n ? n : 1;
		if (is_text(text, n))
			fwrite(text, 1, n, out);
		else
			fputc('?', out);
	}
}

void json_member(bool *first, const char *name)
{
	printf(*first ? "\"%s\": " : ", \"%s\": ", name);
	*first = false;
}

void json_data(bool *first, const void *data, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *bytes = data;

	if (is_utf8(bytes, len)) {
		json_member(first, "data");
		json_bytes(stdout, bytes, len);
		return;
	}
	json_member(first, "data_base64");
	putchar('"');
	for (size_t i = 0; i < len; i += 3) {
		unsigned two = i + 1 < len ? bytes[i + 1] : 0, three = i + 2 < len ? bytes[i + 2] : 0;
		unsigned all = (unsigned)bytes[i] << 16 | two << 8 | three;

		putchar(digits[all >> 18]);
		putchar(digits[all >> 12 & 63]);
		putchar(i + 1 < len ? digits[all >> 6 & 63] : '=');
		putchar(i + 2 < len ? digits[all & 63] : '=');
	}
	putchar('"');
}

void print_cut(const char *text, int width)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t len = strlen(text);
	int used = 0;

	while (len > 0 && (width == 0 || used < width)) {
		size_t n = character(at, len);
		bool shown = n > 0 && is_text(at, n) && *at >= 0x20;

		if (width > 0 && used == width - 1 && len > n) {
			fputs("…", stdout);
		} else if (shown) {
			fwrite(at, 1, n, stdout);
		} else {
			putchar('?');
		}
		used++;
		n = n ? n : 1;
		at += n;
		len -= n;
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
	struct bar *bar = isatty(STDERR_FILENO) ? calloc(1, sizeof(*bar)) : NULL;

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

	fprintf(stderr, "%s? [y/N] ", what);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}
