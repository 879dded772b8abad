/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The oracle as a target of libFuzzer: bytes are decoded into a program of timer calls (oracle.h).
 *
 *     make fuzz                                    begins with test/corpus.tar; new findings go to build-fuzz/corpus
 *     build-fuzz/fuzz_oracle -merge=1 build-fuzz/begin build-fuzz/corpus       keeps what adds coverage
 *     tar --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 -C build-fuzz/begin -cf test/corpus.tar .
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
