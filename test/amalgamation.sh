#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The library as one file: it compiles alone, with each compiler and without a warning, exports the same, and passes tests
# of the API.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
CXX=${CXX:-c++}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

make -s amalgamation BUILD="$root" CC="$CC" >"$root/log" 2>&1 || { result amalgamation "$(cat "$root/log")"; finish; }
result amalgamation_needs_nothing_of_the_tree "$(grep -nE '#\s*include\s*"' "$root/hwt.c" | grep -v '#include "hwt.h"'
	cmp include/hwt.h "$root/hwt.h" 2>&1)"
result amalgamation_keeps_the_notices "$(grep -c 'Copyright .*Samy Al Bahra' "$root/hwt.c" | grep -vE '^[1-9]'
	grep -q 'SPDX-License-Identifier: BSD-2-Clause' "$root/hwt.c" || echo "no licence")"

compile() { # NAME COMMAND...
	name=$1
	shift
	if command -v "$1" >/dev/null 2>&1; then
		result "amalgamation_$name" "$(cd "$root" && "$@" -c hwt.c -pthread -Wall -Wextra -Wshadow -Wconversion -Werror -o "$name.o" 2>&1)"
	else
		skip "amalgamation_$name" "no $1"
	fi
}
compile gcc gcc
compile gcc_c11 gcc -std=c11 -O2
compile gcc_c2x gcc -std=c2x -O3
compile gcc_thread gcc -O1 -g -fsanitize=thread
compile clang clang
compile clang_c11 clang -std=c11 -O2
compile musl musl-gcc -std=c11 -O2
compile aarch64 aarch64-linux-gnu-gcc -std=c11 -O2
compile s390x s390x-linux-gnu-gcc -std=c11 -O2
# shellcheck disable=SC2086 # a compiler may be several words
compile shared $CC -O2 -fPIC
# Not a word of what an older C lacks.
result amalgamation_asks_for_c11 "$($CC -std=c99 -c "$root/hwt.c" -o "$root/c99.o" 2>&1 | sed -n 's/.*error: //p' |
	sed 's/^#error //' >"$root/log"
	echo '"hwt.c is C11: compile it as C, with -std=c11 or a later one"' | diff - "$root/log")"

$CC -shared "$root/shared.o" -pthread -o "$root/shared.so" || exit 1
nm -D --defined-only "$root/shared.so" | sed -n 's/.* T \([^@]*\).*/\1/p' | sort >"$root/exported"
result amalgamation_exports_the_same "$(sed -n 's/^HWT_API .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' include/hwt.h | sort |
	diff - "$root/exported")"

cat >"$root/program.cpp" <<'END'
#include "hwt.hpp"
#include <cstdio>
#include <future>
int main()
{
	hwt::timer timer(std::chrono::milliseconds(1));
	std::promise<void> said;
	if (timer.schedule(std::chrono::milliseconds(2), [&] { std::puts("a moment later"); said.set_value(); }))
		return 1;
	said.get_future().wait();
}
END
if command -v "${CXX%% *}" >/dev/null 2>&1; then
	cp include/hwt.hpp "$root/"
	result amalgamation_in_a_cpp_program "$($CXX -std=c++17 -I"$root" "$root/program.cpp" "$root/shared.o" \
		-pthread -o "$root/program" 2>&1 && {
		timeout 600 "$root/program" >"$root/log" 2>&1 || echo "status $?"
		echo 'a moment later' | diff - "$root/log"
	})"
else
	skip amalgamation_in_a_cpp_program "no C++ compiler"
fi

for test in test_api test_api_config test_api_life test_loop; do
	result "amalgamation_passes_$test" "$($CC -std=c11 -D_GNU_SOURCE -O1 -I"$root" -Itest "test/$test.c" "$root/shared.o" \
		-pthread -o "$root/$test" 2>&1 && { timeout 600 "$root/$test" >"$root/log" 2>&1 || cat "$root/log"; })"
done
finish
