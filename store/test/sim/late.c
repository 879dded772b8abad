/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that reach the server after their client has given up; driver.h. */
#include "driver.h"

#include <stdlib.h>

struct late {
	size_t n;
	unsigned flags;
	bool synced;
	int64_t patience_ns, delay_ns;
	struct hwts_step steps[];
};

static const void *copy(const void *bytes, size_t size)
{
	return bytes ? memcpy(calloc(1, size + 1), bytes, size) : NULL;
}

static void copy_values(struct hwts_value *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		values[i].bytes = copy(values[i].bytes, values[i].len);
}

/* Copies the arguments as well, as the process may die; not the callbacks. */
static void copy_step(struct hwts_step *to, const struct hwts_step *from)
{
	const char *types = hwts_statements[from->sql].types;

	*to = *from;
	to->each = NULL;
	for (int i = 0; types[i]; i++) {
		struct hwts_value *value = &to->args[i];
		bool bytes = types[i] == 't' || types[i] == 'k' || types[i] == 'd';
		bool values = types[i] == 'K' || types[i] == 'D';

		value->bytes = copy(value->bytes, value->len * (bytes ? 1 : values ? sizeof(*value) : sizeof(int64_t)));
		if (values)
			copy_values((struct hwts_value *)(uintptr_t)value->bytes, value->len);
	}
}

static void *execute(void *arg)
{
	struct late *late = arg;
	struct output output = { .end = &output.first };
	struct tx *tx = NULL;

	sim_sleep(late->delay_ns);
	if (!sim_server.is_down) {
		sim_tell("a request comes late: %s", hwts_statements[late->steps[0].sql].name);
		(void)sim_execute_all(NULL, &tx, late->steps, late->n, late->flags, late->synced, late->patience_ns,
				      &output);
	}
	free(late); /* the copies of the arguments stay until the end of the seed */
	return NULL;
}

void sim_execute_late(const struct hwts_step *steps, size_t n, unsigned flags, bool synced, int64_t patience_ns,
		      int64_t delay_ns)
{
	struct late *late = calloc(1, sizeof(*late) + n * sizeof(*steps));

	*late = (struct late){
		n, flags, synced, patience_ns, delay_ns,
	};
	for (size_t i = 0; i < n; i++)
		copy_step(&late->steps[i], &steps[i]);
	(void)sim_start(NULL, "late request", execute, late);
}
