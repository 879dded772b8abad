#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The public header compiles alone in every language it claims; the shared library exports what it declares, and nothing else.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. test/result.sh

cat >"$work/use.c" <<'END'
#include <hwt.h>
#include <hwt.h>
hwt_config make(void);
hwt_config make(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timeout none = HWT_TIMEOUT_NONE;
	none = HWT_TIMEOUT_NONE;
	config.max_pending_timeouts = none.entry == NULL ? HWT_MS(3) : 0;
	return config;
}
END

compile() { # COMPILER STANDARD FLAGS
	compiler=$1
	command -v "$compiler" >/dev/null 2>&1 || { skip "header_with_$compiler" "not installed"; return; }
	shift
	result "header_with_${compiler}_$1" "$("$compiler" "$@" -pedantic -Wall -Wextra -Werror -Iinclude -c "$work/use.c" \
		-o "$work/use.o" 2>&1)"
}

for cc in gcc clang; do
	compile $cc -std=c11 -Wstrict-prototypes -Wmissing-prototypes
	compile $cc -std=c2x
done
for cxx in g++ clang++; do
	compile $cxx -std=c++98 -Wno-long-long -x c++
	compile $cxx -std=c++20 -x c++
done

result header_includes_only_what_it_may "$(sed -n 's/^#include //p' include/hwt.h |
	grep -vE '^<(pthread|stdbool|stddef|stdint)\.h>$'; grep -nE '(^|[^a-z])ck_' include/hwt.h)"

sed -n 's/^HWT_API .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' include/hwt.h | sort >"$work/declared"
nm -D --defined-only "$BUILD"/libhwt.so | sed -n 's/.* T \([^@]*\).*/\1/p' | sort >"$work/exported"
if [ -s "$work/exported" ]; then
	result exports_are_what_the_header_declares "$(diff "$work/declared" "$work/exported")"
else
	result exports_are_what_the_header_declares "no symbols in $BUILD/libhwt.so"
fi
finish
