/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a JSON object whose members are plain values: what a change over HTTP is asked with. */
#include "serve.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static char *skip(char *at)
{
	return at + strspn(at, " \t\r\n");
}

static bool read_hex(const char *at, unsigned *value)
{
	*value = 0;
	for (int i = 0; i < 4; i++) {
		if (!isxdigit((unsigned char)at[i]))
			return false;
		*value = *value << 4 | (unsigned)(at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
	}
	return true;
}

static char *put_utf8(char *out, unsigned value)
{
	if (value < 0x80) {
		*out++ = (char)value;
		return out;
	}
	if (value >= 0x10000) {
		*out++ = (char)(0xf0 | value >> 18);
		*out++ = (char)(0x80 | (value >> 12 & 0x3f));
	} else if (value >= 0x800) {
		*out++ = (char)(0xe0 | value >> 12);
	}
	if (value >= 0x800)
		*out++ = (char)(0x80 | (value >> 6 & 0x3f));
	else
		*out++ = (char)(0xc0 | value >> 6);
	*out++ = (char)(0x80 | (value & 0x3f));
	return out;
}

/* \uXXXX at at, or a pair of surrogates; the end of it, or NULL.  U+0000 would end the text. */
static char *read_escape(char *at, char **out)
{
	unsigned value, low;

	if (!read_hex(at, &value) || value == 0 || (value >= 0xdc00 && value < 0xe000))
		return NULL;
	at += 4;
	if (value >= 0xd800 && value < 0xdc00) {
		if (at[0] != '\\' || at[1] != 'u' || !read_hex(at + 2, &low) || low < 0xdc00 || low >= 0xe000)
			return NULL;
		value = 0x10000 + ((value & 0x3ff) << 10 | (low & 0x3ff));
		at += 6;
	}
	*out = put_utf8(*out, value);
	return at;
}

/* The text behind a quote is decoded where it stands; the end of it, or NULL. */
static char *read_text(char *at)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	char *out = at;

	while (*at != '"') {
		const char *letter;

		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at != '\\') {
			*out++ = *at++;
			continue;
		}
		at++;
		letter = *at ? strchr(letters, *at) : NULL;
		if (letter)
			*out++ = values[letter - letters];
		else if (*at != 'u' || !(at = read_escape(at + 1, &out)))
			return NULL;
		at += letter != NULL;
	}
	*out = '\0';
	return at + 1;
}

/* A value; the end of it, or NULL. */
static char *read_value(char *at, enum json_value *type, char **value)
{
	static const struct {
		const char *word;
		enum json_value type;
	} words[] = { { "true", JSON_TRUE }, { "false", JSON_FALSE }, { "null", JSON_NULL } };

	*value = at;
	if (*at == '"') {
		*type = JSON_TEXT;
		*value = at + 1;
		return read_text(at + 1);
	}
	*type = JSON_NUMBER;
	if (*at == '-' || isdigit((unsigned char)*at))
		return at + 1 + strspn(at + 1, "0123456789.eE+-");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncmp(at, words[i].word, strlen(words[i].word)) == 0) {
			*type = words[i].type;
			return at + strlen(words[i].word);
		}
	return NULL;
}

bool read_object(char *text, bool (*member)(void *ctx, const char *name, enum json_value type, const char *value),
		 void *ctx)
{
	char *at = skip(text);

	if (*at++ != '{')
		return false;
	at = skip(at);
	while (*at != '}') {
		enum json_value type;
		char *name = at + 1, *value, *end, behind;

		if (*at != '"' || !(at = read_text(at + 1)))
			return false;
		at = skip(at);
		if (*at != ':')
			return false;
		end = read_value(skip(at + 1), &type, &value);
		if (!end)
			return false;
		at = skip(end);
		behind = *at;
		if (type != JSON_TEXT)
			*end = '\0'; /* the end of a number; behind has what may stand there */
		if ((behind != ',' && behind != '}') || !member(ctx, name, type, value))
			return false;
		if (behind == '}')
			return *skip(at + 1) == '\0';
		at = skip(at + 1);
		if (*at != '"')
			return false;
	}
	return *skip(at + 1) == '\0';
}
