/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt-jobs: looks into a store, and changes what is there.
 *
 *     main     commands, options, help
 *     look     list, show, stats
 *     change   put, cancel, move, retry, remove
 *     backlog  what is due of a kind, and why it waits
 *     rules    pause, resume, limit
 *     groups   groups with rules of their own
 *     top      a page that draws itself again
 *     vacuum   advice about the tables
 *     serve    a page, over HTTP: serve.h
 *     when     times and durations as people write them
 *     out      JSON, colours, a table, a bar
 *
 * It uses the public interface alone; vacuum asks the database itself.  What ends it: 0 done, 1 not done (not there,
 * running, in use), 2 wrong use, 3 the database.
 */
#ifndef JOBS_H
#define JOBS_H

#include <hwt_store.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { DONE, NOT_DONE, WRONG_USE, NO_DATABASE };

#define PENDING (1u << HWT_STORE_PENDING)
#define RUNNING (1u << HWT_STORE_RUNNING)
#define FAILED (1u << HWT_STORE_FAILED)

struct command; /* in main.c */

struct jobs {
	hwt_store *store;
	const struct command *command; /* NULL: none yet */
	FILE *out, *err;               /* JSON goes there */
	const char *url, *schema;      /* schema: the prefix of the tables */
	const char *listen, *unix_path, *token_file, *hosts[16];
	size_t host_count;
	const char *group, *key, *every, *cron, *zone, *grace, *spread, *when, *in, *data;
	unsigned states;        /* 0: all */
	int64_t limit;          /* 0: as the command has it */
	int64_t running, burst; /* -1: not given */
	int priority;
	bool json, colours, all, no_group, replace, revive, keep_due, make, yes, prometheus, unset, count, version,
	    changes, behind_proxy;
	char **words; /* the arguments that are no options */
	int n;
	int failure; /* the errno value of a call that failed, after report */
};

/* In main.c. */
__attribute__((format(printf, 2, 3))) int complain(const struct jobs *jobs, const char *format, ...); /* WRONG_USE */
int report(struct jobs *jobs, int rc, const char *what); /* says why a call failed; how the program ends */
enum takes { NO_OPTION, TAKES_NOTHING, TAKES_VALUE };
enum takes option_takes(const struct jobs *jobs, const char *name);      /* of the command, by its long name */
int give_option(struct jobs *jobs, const char *name, const char *value); /* a flag: NULL */
int find_command(struct jobs *jobs, const char *name);
int run_command(struct jobs *jobs);
int check_group(const struct jobs *jobs);
bool add_host(struct jobs *jobs, const char *name);
const char *nearest(const char *word, const char *const *words, size_t n); /* or NULL */

/* In look.c, change.c, top.c, vacuum.c: commands. */
int list(struct jobs *jobs);
int show(struct jobs *jobs);
int stats(struct jobs *jobs);
int put(struct jobs *jobs);
int cancel(struct jobs *jobs);
int move(struct jobs *jobs);
int retry(struct jobs *jobs);
int remove_kind(struct jobs *jobs);
int pause_it(struct jobs *jobs);
int resume(struct jobs *jobs);
int limit(struct jobs *jobs);
int groups(struct jobs *jobs);
int top(struct jobs *jobs);
int vacuum(struct jobs *jobs);
int serve(struct jobs *jobs);
int find_kind(struct jobs *jobs, const char *name); /* DONE; or says why not, with the nearest name */
const char *state_name(hwt_store_state state);
void json_info(FILE *out, const hwt_store_info *info, bool with_data);

/* Names of kinds, in their order. */
struct names {
	char (*names)[64];
	size_t n;
	int rc;
};
int read_names(hwt_store *store, struct names *names); /* names.names is to be freed, also on failure */

/* In backlog.c. */
struct backlog {
	uint64_t due, running;
	bool more; /* there are more than these */
};
int read_backlog(hwt_store *store, const char *kind, int64_t now_us, struct backlog *backlog);
void json_waiting(const struct jobs *jobs, bool *first, const hwt_store_kind_info *info);
void print_waiting(const hwt_store_kind_info *info);         /* a line for each reason */
void print_why(const struct jobs *jobs, struct names *names); /* the same of these kinds */

/* In groups.c. */
void write_limits(const hwt_store_limits *limits, char *text, size_t size);
void print_rules(const struct jobs *jobs, const char *kind); /* a line, if groups of the kind have rules */
void json_rules(const struct jobs *jobs, bool *first, const char *kind);
void write_rules(const hwt_store_group_info *info, char *text, size_t size);
void rules_of(const struct jobs *jobs, const char *kind, const char *group, char *text, size_t size);

/* In when.c. */
bool read_duration(const char *text, int64_t *ns); /* 90s, 1h30m, 2 days */
bool read_when(const char *text, int64_t now_us, hwt_store_when *when);
int64_t wall_us(void);
void write_time(int64_t us, char *text, size_t size);                     /* of this place, to the second */
void write_utc(int64_t us, char *text, size_t size);                      /* for machines */
void write_distance(int64_t us, int64_t now_us, char *text, size_t size); /* in 3 h, 2 min ago */
void write_duration(int64_t ns, char *text, size_t size);

/* In out.c. */
enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW };
const char *paint(const struct jobs *jobs, enum colour colour);
void json_text(FILE *out, const char *text);                          /* in quotes */
void json_member(FILE *out, bool *first, const char *name);           /* "name": */
void json_data(FILE *out, bool *first, const void *data, size_t len); /* "data", or "data_base64" */
bool is_text(const void *data, size_t len);                           /* UTF-8 that a terminal can show */
bool is_utf8(const char *text, size_t len);
void print_cut(const char *text, int width);                          /* padded or cut; what is no text as ? */
void print_plain(FILE *out, const char *text);                        /* all of it; line ends too */
struct bar;
struct bar *bar_begin(const struct jobs *jobs, const char *doing, uint64_t total); /* NULL: not on a terminal */
void bar_end(struct bar *bar);
int terminal_columns(void);         /* 132 if there is no terminal */
bool asks(const struct jobs *jobs); /* a person, before much is done */
bool confirm(const char *what);

#endif
