/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top: a page that draws itself again.
 *
 * A page shows the kinds, then groups and processes of the timeouts that are next: of each kind at most SAMPLE rows
 * are read.  On a terminal it uses the alternate screen, and leaves it before a signal that it catches ends it;
 * elsewhere one page is written.
 */
#include "jobs.h"
#include "select.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define SAMPLE 500 /* rows of a kind */
#define PLACES 256 /* groups, and processes */
#define INTERVAL_S 2

struct place {
	char name[256], kind[64], rules[128]; /* rules: of a group, if it has any of its own */
	uint64_t overdue, waiting, running;
	int64_t oldest_us;
};

struct page {
	struct jobs *jobs;
	int64_t now_us, seen;
	struct place groups[PLACES], owners[PLACES];
	size_t group_count, owner_count;
};

static struct place *place_of(struct place *places, size_t *n, const char *kind, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(places[i].name, name) == 0 && strcmp(places[i].kind, kind) == 0)
			return &places[i];
	if (*n == PLACES)
		return NULL;
	places[*n] = (struct place){ .oldest_us = INT64_MAX };
	(void)snprintf(places[*n].name, sizeof(places[*n].name), "%s", name);
	(void)snprintf(places[*n].kind, sizeof(places[*n].kind), "%s", kind);
	return &places[(*n)++];
}

static void note(struct place *place, const hwt_store_info *info, int64_t now_us)
{
	if (!place)
		return;
	if (info->state == HWT_STORE_RUNNING)
		place->running++;
	else if (info->due_us <= now_us)
		place->overdue++;
	else
		place->waiting++;
	if (info->state == HWT_STORE_PENDING && info->due_us > 0 && info->due_us < place->oldest_us)
		place->oldest_us = info->due_us;
}

static bool see(void *ctx, const hwt_store_info *info)
{
	struct page *page = ctx;

	note(place_of(page->groups, &page->group_count, info->kind, info->group), info, page->now_us);
	if (info->owner[0])
		note(place_of(page->owners, &page->owner_count, "", info->owner), info, page->now_us);
	return ++page->seen < SAMPLE;
}

static bool note_rules(void *ctx, const hwt_store_group_info *info)
{
	struct page *page = ctx;

	for (size_t i = 0; i < page->group_count; i++)
		if (strcmp(page->groups[i].name, info->group) == 0 && strcmp(page->groups[i].kind, info->kind) == 0)
			write_rules(info, page->groups[i].rules, sizeof(page->groups[i].rules));
	return true;
}

static bool sample(void *ctx, const hwt_store_kind_info *info)
{
	struct page *page = ctx;
	size_t groups = page->group_count;
	hwt_store_which which = HWT_STORE_WHICH_INIT;

	if (page->jobs->n == 1 && strcmp(page->jobs->words[0], info->kind) != 0)
		return true;
	which.kind = info->kind;
	which.all = which.any_group = true;
	which.states = PENDING | RUNNING;
	page->seen = 0;
	(void)hwt_store_each_ex(page->jobs->store, &which, see, page);
	if (page->group_count > groups)
		(void)hwt_store_each_group(page->jobs->store, info->kind, note_rules, page);
	return true;
}

static int by_work(const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	uint64_t work_a = a->running + a->overdue, work_b = b->running + b->overdue;

	if (work_a != work_b)
		return work_a < work_b ? 1 : -1;
	return a->waiting != b->waiting ? (a->waiting < b->waiting ? 1 : -1) : strcmp(a->name, b->name);
}

/*
 * Writing
 */

static void json_places(const char *name, const struct place *places, size_t n, const char *what)
{
	printf(",\n\"%s\": [", name);
	for (size_t i = 0; i < n; i++) {
		bool first = true;

		fputs(i ? ",\n{" : "\n{", stdout);
		if (*places[i].kind) {
			json_member(stdout, &first, "kind");
			json_text(stdout, places[i].kind);
		}
		json_member(stdout, &first, what);
		json_text(stdout, places[i].name);
		printf(", \"running\": %" PRIu64 ", \"overdue\": %" PRIu64 ", \"waiting\": %" PRIu64 "}",
		       places[i].running, places[i].overdue, places[i].waiting);
	}
	fputs("]", stdout);
}

static void print_places(const struct page *page, const char *title, const struct place *places, size_t n, int rows)
{
	const struct jobs *jobs = page->jobs;
	char oldest[48];

	if (n == 0 || rows < 3)
		return;
	if (n > (size_t)rows - 2)
		n = (size_t)rows - 2;
	printf("\n%s%-40s %8s %8s %8s  %-14s%s\n", paint(jobs, BOLD), title, "RUNNING", "OVERDUE", "NEXT", "OLDEST DUE",
	       paint(jobs, PLAIN));
	for (size_t i = 0; i < n; i++) {
		char name[330];

		(void)snprintf(name, sizeof(name), "%s%s%s", places[i].kind, *places[i].kind ? "  " : "",
			       places[i].name[0] ? places[i].name : "no group");
		write_distance(places[i].oldest_us == INT64_MAX ? 0 : places[i].oldest_us, page->now_us, oldest,
			       sizeof(oldest));
		print_cut(name, 40);
		printf(" %s%8" PRIu64 "%s %s%8" PRIu64 "%s %8" PRIu64 "  %-14s %s\n",
		       paint(jobs, places[i].running ? GREEN : PLAIN), places[i].running, paint(jobs, PLAIN),
		       paint(jobs, places[i].overdue ? YELLOW : PLAIN), places[i].overdue, paint(jobs, PLAIN),
		       places[i].waiting, oldest, places[i].rules);
	}
}

/* rows 0: as many as there are. */
static int write_page(struct jobs *jobs, int rows)
{
	static struct page page;
	char now[48];
	int64_t count = 0;
	int rc, left;

	page = (struct page){ .jobs = jobs, .now_us = wall_us() };
	if (jobs->json) {
		fputs("{\"kinds\": ", stdout);
	} else {
		write_time(page.now_us, now, sizeof(now));
		printf("%shwt-jobs%s  %s  %s\n\n", paint(jobs, BOLD), paint(jobs, PLAIN), now,
		       rows ? "q: end, space: now" : "");
	}
	rc = print_kinds(jobs, rows / 2, &count);
	if (rc == 0)
		rc = hwt_store_each_kind(jobs->store, sample, &page);
	qsort(page.groups, page.group_count, sizeof(page.groups[0]), by_work);
	qsort(page.owners, page.owner_count, sizeof(page.owners[0]), by_work);
	if (jobs->json) {
		json_places("groups", page.groups, page.group_count, "group");
		json_places("processes", page.owners, page.owner_count, "process");
		puts("}");
	} else {
		left = rows ? rows - 4 - (int)count : INT32_MAX;
		if (page.owner_count > 0) /* fewer than groups, as a rule */
			left = rows ? left - (int)(page.owner_count > 6 ? 6 : page.owner_count) - 2 : left;
		print_places(&page, "GROUP, OF WHAT IS NEXT", page.groups, page.group_count, left);
		print_places(&page, "PROCESS, OF WHAT IS NEXT", page.owners, page.owner_count, rows ? 8 : INT32_MAX);
	}
	return rc;
}

/*
 * The terminal
 */

static volatile sig_atomic_t ended, resized;
static struct termios before;

static void on_signal(int number)
{
	if (number == SIGWINCH || number == SIGCONT)
		resized = 1;
	else
		ended = number;
}

/* A page goes out when all of it has been read: the old one stays until then. */
static void keep_whole_pages(void)
{
	static char buffer[1 << 20];

	(void)setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

static void enter_screen(void)
{
	struct termios raw = before;

	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs("\033[?1049h\033[?25l\033[?7l", stdout);
	fflush(stdout);
}

static void leave_screen(void)
{
	fputs("\033[?7h\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT, SIGTSTP };
	struct sigaction action = { .sa_handler = on_signal };

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		(void)sigaction(numbers[i], &action, NULL);
}

/* Ctrl-Z: the shell gets its screen back. */
static void suspend(void)
{
	leave_screen();
	ended = 0;
	(void)raise(SIGSTOP);
	enter_screen();
}

static int draw(struct jobs *jobs)
{
	struct winsize size = { .ws_row = 24 };
	int rc;

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	fputs("\033[H\033[2J", stdout);
	rc = write_page(jobs, size.ws_row ? size.ws_row : 24);
	fflush(stdout);
	return rc;
}

/* False: a key has ended it. */
static bool wait_for_key(int64_t ms)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	char key = 0;

	if (poll(&fd, 1, (int)ms) <= 0)
		return true;
	if (read(STDIN_FILENO, &key, 1) != 1)
		return false;
	return key != 'q' && key != 'Q' && key != 4;
}

int top(struct jobs *jobs)
{
	int64_t interval_ms = 1000 * (jobs->limit ? jobs->limit : INTERVAL_S);
	bool goes_on = true;
	int rc = 0;

	if (jobs->n > 1)
		return complain(jobs, "top takes one kind, not \"%s\"", jobs->words[1]);
	rc = jobs->n == 1 ? find_kind(jobs, jobs->words[0]) : DONE;
	if (rc != DONE)
		return rc;
	if (jobs->json || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0) {
		rc = write_page(jobs, 0);
		return rc == 0 ? DONE : report(jobs, rc, "top");
	}
	catch_signals();
	keep_whole_pages();
	enter_screen();
	while (goes_on && rc == 0 && (ended == 0 || ended == SIGTSTP)) {
		if (ended == SIGTSTP)
			suspend();
		resized = 0;
		rc = draw(jobs);
		if (!ended && !resized)
			goes_on = wait_for_key(interval_ms);
	}
	leave_screen();
	if (rc != 0)
		return report(jobs, rc, "top");
	if (ended != 0) {
		(void)signal(ended, SIG_DFL);
		(void)raise(ended);
	}
	return DONE;
}
