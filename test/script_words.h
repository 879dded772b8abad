/* SPDX-License-Identifier: BSD-2-Clause */
/* A script's state, and its words; script.h. */
#ifndef HWT_TEST_SCRIPT_WORDS_H
#define HWT_TEST_SCRIPT_WORDS_H

#include "unit.h"
#include "check/check.h"

#include <ctype.h>
#include <stddef.h>

#define SCRIPT_TIMEOUTS 52
#define SCRIPT_PARKED 256
#define SCRIPT_WORD 32
#define SCRIPT_ROOM 30

struct script_part {
	const char *at, *end;
};

struct script_timeout {
	hwt_timeout handle;
	unsigned runs, released, plays;
	uint64_t missed;
	int64_t at_ns;
	struct script_part in, out;
	bool are_many; /* a timeout was scheduled while another of this letter was pending */
};

static struct script {
	hwt_config config;
	hwt_timer *timer;
	bool is_unstarted, is_parked, is_told;
	atomic_uint rings;
	struct script_timeout all[SCRIPT_TIMEOUTS];
	struct {
		void (*run)(void *job);
		void *job;
	} parked[SCRIPT_PARKED];
	unsigned first, end, refuse, depth;
	size_t room;                 /* of a batch */
	char fired[SCRIPT_ROOM + 1]; /* the letters of the last batch */
	int64_t now_ns;
	char point[SCRIPT_WORD];
	struct script_part there; /* the statements to be played at that point */
	struct script_part now;   /* the statement, for messages */
} script;

static void script_play(struct script_part part);

static inline void script_fail(const char *what, int64_t is, int64_t wanted)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%s: \"%.*s\"", what, (int)(script.now.end - script.now.at), script.now.at);
	test_fail("script", (int)script.config.wheel, text, is, wanted, true);
}

static inline void script_want(const char *what, int64_t is, int64_t wanted)
{
	if (is != wanted)
		script_fail(what, is, wanted);
}

/*
 * Words
 */

static inline void script_skip(struct script_part *part)
{
	while (part->at < part->end && isspace((unsigned char)*part->at))
		part->at++;
}

static inline const char *script_word(struct script_part *part, char *word)
{
	size_t n = 0;

	script_skip(part);
	while (part->at < part->end && !isspace((unsigned char)*part->at)) {
		REQUIRE(n + 1 < SCRIPT_WORD);
		word[n++] = *part->at++;
	}
	word[n] = 0;
	return word;
}

/* Takes the text in braces, without the braces. */
static inline struct script_part script_braces(struct script_part *part)
{
	struct script_part inside;
	unsigned depth = 0;

	script_skip(part);
	REQUIRE(*part->at == '{');
	inside.at = part->at + 1;
	do {
		depth += *part->at == '{';
		depth -= *part->at == '}';
		REQUIRE(part->at++ < part->end);
	} while (depth > 0);
	inside.end = part->at - 1;
	return inside;
}

static inline int64_t script_time(const char *word)
{
	char *rest;
	int64_t ms;

	if (strcmp(word, "never") == 0)
		return INT64_MAX;
	if (strcmp(word, "ever") == 0)
		return INT64_MIN;
	ms = strtoll(word, &rest, 10);
	REQUIRE(rest != word);
	return HWT_MS(ms) + (*rest != 0 ? strtoll(rest, NULL, 10) : 0);
}

static inline int64_t script_number(struct script_part *part)
{
	char word[SCRIPT_WORD], *rest;
	int64_t number = strtoll(script_word(part, word), &rest, 0);

	REQUIRE(rest != word && *rest == 0);
	return number;
}

static inline struct script_timeout *script_which(struct script_part *part)
{
	char word[SCRIPT_WORD];

	REQUIRE(isalpha((unsigned char)script_word(part, word)[0]) && word[1] == 0);
	return &script.all[islower((unsigned char)word[0]) ? word[0] - 'a' : 26 + word[0] - 'A'];
}

static inline int64_t script_when(struct script_part *part)
{
	char word[SCRIPT_WORD];

	return script_time(script_word(part, word));
}

/* Takes the word behind "=", if there is one. */
static inline bool script_answer(struct script_part *part, char *word)
{
	if (script_word(part, word)[0] == 0)
		return false;
	REQUIRE(strcmp(word, "=") == 0);
	(void)script_word(part, word);
	return true;
}

static inline int script_error(const char *word)
{
	static const struct {
		const char *name;
		int rc;
	} errors[] = {
		{ "EINVAL", EINVAL }, { "ENOENT", ENOENT },   { "EBUSY", EBUSY },         { "EDEADLK", EDEADLK },
		{ "ENOMEM", ENOMEM }, { "ENOBUFS", ENOBUFS }, { "ECANCELED", ECANCELED },
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, word) == 0)
			return errors[i].rc;
	return 0;
}

/* Checks the answer of a call: 0, or the error behind "=". */
static inline void script_rc(struct script_part *part, int rc)
{
	char word[SCRIPT_WORD];

	script_want("returns", rc, script_answer(part, word) ? script_error(word) : 0);
}

#endif
