/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The oracle as a target of libFuzzer: bytes are decoded into a program of timer calls (oracle.h).
 *
 *     clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -DHWT_TEST \
 *             -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Itest -pthread -o fuzz_oracle \
 *             test/fuzz_oracle.c src/[a-z]*.c
 *
 *     ./fuzz_oracle -max_len=2000 folder test/corpus       new findings go to `folder`
 *     ./fuzz_oracle -merge=1 test/corpus folder            keeps what adds coverage
 *
 * unit_oracle replays the corpus without libFuzzer.
 */
#include "oracle_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (!oracle_run_bytes(bytes, size))
		abort();
	return 0;
}
