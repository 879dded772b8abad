#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds everything for aarch64 with Debian's cross compiler and runs the tests under qemu.  Emulation shows that the code builds with that
# architecture's Concurrency Kit and is right in its logic; the order of memory accesses it shows only as far as qemu reorders.
#
# Both packages of Concurrency Kit have the file ck_md.h in one place, so the one for arm64 is only unpacked, not installed.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
cross=aarch64-linux-gnu-gcc

for tool in $cross qemu-aarch64 apt-get dpkg-deb; do
	command -v $tool >/dev/null 2>&1 || { skip aarch64 "no $tool (apt-get install gcc-aarch64-linux-gnu qemu-user)"; finish; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get download -q libck-dev:arm64 >/dev/null 2>&1)
ls "$work"/libck-dev_*_arm64.deb >/dev/null 2>&1 || {
	skip aarch64 "no package libck-dev:arm64 (dpkg --add-architecture arm64, apt-get update)"
	finish
}
dpkg-deb -x "$work"/libck-dev_*_arm64.deb "$work/ck" || exit 1

# The trap this is about: this machine's ck_md.h says that stores stay in order, and would drop every barrier of Concurrency
# Kit.  The queue must not depend on it.
if [ -e /usr/include/ck_md.h ] && grep -q 'define CK_MD_TSO' /usr/include/ck_md.h; then
	mkdir "$work/wrong" && cp /usr/include/ck_*.h "$work/wrong/" && cp -r /usr/include/gcc /usr/include/spinlock "$work/wrong/"
	for headers in ck/usr/include wrong; do
		$cross -std=c11 -O2 -Iinclude -Isrc -I"$work/$headers" -S src/lane/queue.c -o "$work/${headers##*/}.s" 2>&1
	done >"$work/log"
	result aarch64_is_the_same_with_the_wrong_ck_md_h "$(cat "$work/log"; cmp "$work/include.s" "$work/wrong.s" 2>&1
		grep -q 'stlr' "$work/include.s" || echo "no release")"
fi

# The tests with threads take long under emulation: a few of the rounds.  So does each interleaving, one after the other
# on one thread: the same on every machine.
tests=$(for file in test/unit_*.c test/test_stress_all.c; do
	[ "$file" = test/unit_interleave.c ] ||
		echo "build-aarch64/test/$(basename "$file" .c)"; done)
# shellcheck disable=SC2086 # a list of words
make -s CC=$cross BUILD=build-aarch64 CPPFLAGS="-isystem $work/ck/usr/include" WERROR=1 $tests || { result aarch64_builds "it does not"; finish; }
result aarch64_builds ""
# shellcheck disable=SC2086
for program in $tests; do
	result "aarch64_$(basename "$program")" "$(HWT_SCALE=1 timeout 1800 qemu-aarch64 -L /usr/aarch64-linux-gnu "$program" \
		>"$work/log" 2>&1 || cat "$work/log")"
done
finish
