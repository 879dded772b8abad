/* SPDX-License-Identifier: BSD-2-Clause */
/* See subjects.h. */
#include "subjects.h"

#include "run.h"
#include "program.h"
#include "report.h"
#include "options.h"
#include "rivals.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct subject *const linked[] = { &subject_hwt,      &subject_levels,  &subject_floor,   &subject_heap,
						&subject_textbook, &subject_buckets, &subject_timerfd, &subject_loop,
						&subject_loop_fd,  &subject_tree,    &subject_none };
static const struct subject *const broken[] = { &subject_broken_lost, &subject_broken_early, &subject_broken_cancel };

/* Programs; " S1 S2 " are the scenarios that a program has. */
static struct subject netty = {
	.name = "netty",
	.rank = RANK_MAIN,
	.only = " S1 S1t S1w S2 S2w S2x S3 S3.spread S4 S5 S6 S8.P S8.S1 S8.S2 S9 ",
};
static struct subject go = {
	.name = "go",
	.rank = RANK_MAIN,
	.churn_max = 10000000,
	.only = " S1 S1t S1w S2 S2w S2x S3 S3.spread S4 S5 S6 S7 S8.P S8.S1 S8.S2 ",
};

static const struct optional {
	const char *name, *file, *needs;
	struct subject *program; /* NULL: a shared object */
} optionals[] = {
	{ "netty", "netty-bench", "libnetty-java, default-jdk-headless", &netty },
	{ "go", "go-bench", "golang-go", &go },
	{ "libevent", "rival_libevent.so", "libevent-dev", NULL },
	{ "libuv", "rival_libuv.so", "libuv1-dev", NULL },
	{ "asio", "rival_asio.so", "libboost-dev, g++", NULL },
	{ "glib", "rival_glib.so", "libglib2.0-dev", NULL },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char folder[4096];

/* Loads the table of a subject from a path.  Returns NULL, and the reason, if there is none. */
static const struct subject *load(const struct optional *optional, const char *path, const char **why)
{
	const struct subject *subject;
	void *object;

	*why = "not built";
	if (access(path, optional->program ? X_OK : R_OK) != 0)
		return NULL;
	if (optional->program) {
		optional->program->program = strdup(path);
		return optional->program;
	}
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	subject = object ? dlsym(object, "rival") : NULL;
	*why = subject ? "" : dlerror();
	/* A table of another size has its functions at other offsets. */
	if (!subject || subject->size == sizeof(*subject))
		return subject;
	*why = "built for another version of the bench: make bench builds it again";
	return NULL;
}

static void say(const struct subject *subject)
{
	char version[128];

	if (subject->program)
		program_version(subject->program, version, sizeof(version));
	else
		(void)snprintf(version, sizeof(version), "%s", subject->version());
	report_subject(subject->name, version);
}

static bool wanted(char *const *names, const char *name)
{
	return !names[0] || options_name(names, name);
}

static size_t add_linked(const struct subject *const *table, size_t count, char *const *names,
			 const struct subject **list)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		if (wanted(names, table[i]->name)) {
			list[found++] = table[i];
			say(table[i]);
		}
	return found;
}

bool subjects_find(const char *bench_path, char *const *names, const struct subject **list)
{
	size_t count = add_linked(linked, COUNT(linked), names, list), asked = 0;
	bool missing = false;
	char path[4200], copy[4096], text[400];

	(void)snprintf(copy, sizeof(copy), "%s", bench_path);
	(void)snprintf(folder, sizeof(folder), "%s", dirname(copy));
	if (names[0])
		count += add_linked(broken, COUNT(broken), names, list + count);
	for (size_t i = 0; i < COUNT(optionals); i++) {
		const struct subject *subject;
		const char *why;

		if (!wanted(names, optionals[i].name))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", folder, optionals[i].file);
		subject = load(&optionals[i], path, &why);
		if (subject) {
			list[count++] = subject;
			say(subject);
		} else {
			(void)snprintf(text, sizeof(text), "skipped: %.200s (needs %s)", why, optionals[i].needs);
			report_subject(optionals[i].name, text);
			missing |= names[0] != NULL;
		}
	}
	list[count] = NULL;
	while (names[asked])
		asked++;
	return !missing && count > 0 && (asked == 0 || count >= asked);
}
