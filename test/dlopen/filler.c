/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes BYTES of the static part of thread-local memory. */
char *filler_address(void);

char *filler_address(void)
{
	static _Thread_local char filler[BYTES] __attribute__((tls_model("initial-exec")));

	return filler;
}
