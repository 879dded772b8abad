/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Public structs that grow at their end from version to version.
 *
 * The first field says how many bytes the caller's struct has.  The library serves whole fields: a field that a smaller
 * struct lacks keeps its default, and the bytes that a larger one has behind the fields known here must be zero.
 */
#ifndef HWT_SIZED_H
#define HWT_SIZED_H

#include "base/base.h"

#include <errno.h>
#include <string.h>

#define FIELD_END(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/*
 * Returns how many bytes of a struct of `size` bytes are whole fields, which end at ends[0] < ... < ends[count - 1].
 * Returns 0 if the struct is too small for the first field, or larger than any struct.
 */
static inline size_t sized_known(const size_t *ends, size_t count, size_t size)
{
	if (size > HWT_STRUCT_MAX)
		return 0;
	while (count > 0 && ends[count - 1] > size)
		count--;
	return count > 0 ? ends[count - 1] : 0;
}

/*
 * Copies the whole fields of a caller's struct of `size` bytes into one of `own` bytes, which holds the defaults.
 * EINVAL: sized_known is 0; ENOTSUP: a setting of a newer header, which is never ignored.
 */
static inline int sized_read(void *to, size_t own, const void *from, size_t size, const size_t *ends, size_t count)
{
	const unsigned char *bytes = from;
	size_t known = sized_known(ends, count, size);

	if (known == 0)
		return EINVAL;
	for (size_t i = own; i < size; i++)
		if (bytes[i] != 0)
			return ENOTSUP;
	if (likely(known == ends[count - 1]))
		memcpy(to, from, ends[count - 1]); /* a constant size, so no call */
	else
		memcpy(to, from, known);
	return 0;
}

/* Fills a caller's struct of `size` bytes: `known` bytes from the library's, then zeros.  Its size field is kept. */
static inline void sized_write(void *to, size_t size, const void *from, size_t known)
{
	memcpy(to, from, known);
	memset((unsigned char *)to + known, 0, size - known);
	memcpy(to, &size, sizeof(size));
}

#endif
