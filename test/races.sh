#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Would ThreadSanitizer see a race if there were one, with Concurrency Kit as we build it for it?  Plants each race of
# test/races.txt in a copy of the tree, and demands a report from a stress test.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

perl test/mutate.pl test/races.txt check || exit 1
for name in $(perl test/mutate.pl test/races.txt list | cut -d' ' -f1); do
	rm -rf "$work/tree" && mkdir "$work/tree" && cp -R Makefile include src test "$work/tree" || exit 1
	found=
	if (cd "$work/tree" && perl test/mutate.pl test/races.txt apply "$name" && make -s SAN=thread build-thread/test/test_stress_all \
		build-thread/test/test_stress_handles build-thread/test/test_each build-thread/test/unit_lane \
		build-thread/test/unit_full); then
		for program in unit_lane unit_full test_stress_all test_stress_handles test_each; do
			HWT_SCALE=10 TSAN_OPTIONS=halt_on_error=1 timeout 1800 "$work/tree/build-thread/test/$program" 2>&1 |
				grep -q 'WARNING: ThreadSanitizer: data race' && found=$program && break
		done
	fi
	result "race_${name}_is_reported" "$([ -n "$found" ] || echo "by no program")"
done
finish
