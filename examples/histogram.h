/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A histogram of durations, in nanoseconds, with two significant decimal digits.
 *
 * Structure  Buckets 0 .. 99 count those values; above, each decade has 90 buckets of equal width (100 .. 109 in one,
 *            1000 .. 1099 in one).  So a bucket is at most a tenth of its value wide, whatever the value, and its
 *            bounds are the round numbers that people cut charts at.
 * Threads    None of its own: one thread writes; others read when something has ordered them after the writer.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define HISTOGRAM_BUCKETS 1623 /* the last is that of INT64_MAX, 17 * 90 + 92 */

struct histogram {
	uint64_t count;
	uint64_t negative; /* these are counted in bucket 0, too */
	int64_t max_ns;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline size_t histogram_index(int64_t value_ns)
{
	size_t decade = 0;

	for (; value_ns >= 100; value_ns /= 10)
		decade++;
	return decade * 90 + (size_t)value_ns;
}

/* The smallest value of a bucket; that of the next one is where it ends. */
static inline int64_t histogram_bound(size_t index)
{
	size_t decade = index < 100 ? 0 : (index - 10) / 90;
	int64_t value_ns = (int64_t)(index - decade * 90);

	for (; decade > 0; decade--)
		value_ns *= 10;
	return value_ns;
}

static inline void histogram_add(struct histogram *histogram, int64_t value_ns)
{
	histogram->count++;
	if (value_ns > histogram->max_ns)
		histogram->max_ns = value_ns;
	if (value_ns < 0) {
		histogram->negative++;
		value_ns = 0;
	}
	histogram->bucket[histogram_index(value_ns)]++;
}

/* A value that permille of 1000 values do not exceed, at most a tenth too large; 0 when nothing was counted. */
static inline int64_t histogram_quantile(const struct histogram *histogram, unsigned permille)
{
	uint64_t wanted = (histogram->count * permille + 999) / 1000, seen = 0;

	for (size_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->bucket[i];
		if (seen >= wanted && histogram_bound(i + 1) < histogram->max_ns)
			return histogram_bound(i + 1);
		if (seen >= wanted)
			break;
	}
	return histogram->max_ns;
}

/* How many values lie in from_ns .. to_ns - 1; exact when both bounds have two significant digits. */
static inline uint64_t histogram_between(const struct histogram *histogram, int64_t from_ns, int64_t to_ns)
{
	uint64_t count = 0;

	for (size_t i = 0; i < HISTOGRAM_BUCKETS && histogram_bound(i) < to_ns; i++)
		if (histogram_bound(i) >= from_ns)
			count += histogram->bucket[i];
	return count;
}

/* The other's values, added. */
static inline void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	histogram->count += other->count;
	histogram->negative += other->negative;
	if (other->max_ns > histogram->max_ns)
		histogram->max_ns = other->max_ns;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram->bucket[i] += other->bucket[i];
}

/* As text without spaces, for a pipe: NEGATIVE,MAX,INDEX:COUNT,INDEX:COUNT,... */
static inline void histogram_write(const struct histogram *histogram, FILE *out)
{
	fprintf(out, "%" PRIu64 ",%" PRId64, histogram->negative, histogram->max_ns);
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (histogram->bucket[i] != 0)
			fprintf(out, ",%zu:%" PRIu64, i, histogram->bucket[i]);
}

/* Reads what histogram_write wrote; false when it is not that. */
static inline bool histogram_read(struct histogram *histogram, const char *text)
{
	char *end;

	*histogram = (struct histogram){ 0 };
	histogram->negative = strtoull(text, &end, 10);
	if (*end != ',')
		return false;
	histogram->max_ns = strtoll(end + 1, &end, 10);
	while (*end == ',') {
		size_t index = strtoul(end + 1, &end, 10);

		if (*end != ':' || index >= HISTOGRAM_BUCKETS)
			return false;
		histogram->bucket[index] = strtoull(end + 1, &end, 10);
		histogram->count += histogram->bucket[index];
	}
	return *end == '\0' || *end == '\n';
}

#endif /* HISTOGRAM_H */
