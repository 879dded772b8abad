#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# abi.sh [--update]: what programs are built against, symbols, layouts and values, is what test/abi.txt says.  A change
# has to touch that file, on purpose.  (Of machines with 64 bits.)
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every member of every public structure, every enumerator and every number that the header names.
{
	printf '#include <hwt.h>\n#include <stdio.h>\n'
	printf '#define SIZE(type) printf("sizeof %%s = %%zu\\n", #type, sizeof(type));\n'
	printf '#define AT(type, member) printf("%%s.%%s at %%zu, %%zu bytes\\n", #type, #member, offsetof(type, member), '
	printf 'sizeof(((type *)0)->member));\n'
	printf '#define VALUE(name) printf("%%s = %%lld\\n", #name, (long long)(name));\nint main(void)\n{\n'
	sed 's#/\*.*\*/##' include/hwt.h | awk '
	/^[ \t]*\/\*/ && !/\*\// { comment = 1 }
	comment { if (/\*\//) comment = 0; next }
	/^typedef struct hwt_[a-z]+ \{/ { type = $3; print "SIZE(" type ")"; next }
	/^typedef enum hwt_[a-z]+ \{/ { enumeration = 1; next }
	/^\}/ { type = ""; enumeration = 0 }
	type != "" && /;/ {
		line = $0
		if (match(line, /\(\*[a-z_]+\)/))
			names = substr(line, RSTART + 2, RLENGTH - 3)
		else {
			sub(/;.*/, "", line); sub(/\[.*/, "", line)
			names = line; sub(/^[ \t]*(const )?[a-z_0-9]+ \**/, "", names)
		}
		n = split(names, name, /,[ ]*/)
		for (i = 1; i <= n; i++) print "AT(" type ", " name[i] ")"
	}
	enumeration && /HWT_/ { gsub(/[, \t]/, ""); sub(/=.*/, ""); print "VALUE(" $0 ")" }
	/^#define HWT_[A-Z_]+ [0-9]+u/ { print "VALUE(" $2 ")" }'
	printf 'return 0;\n}\n'
} >"$work/abi.c"
"$CC" -std=c11 -Iinclude "$work/abi.c" -o "$work/abi" 2>"$work/log" || { result abi_program "$(cat "$work/log")"; finish; }
{
	nm -D --defined-only "$BUILD"/libhwt.so | awk '{ print $2, $3 }' | grep -v ' HWT_' | sed 's/@.*//' | sort
	"$work/abi"
} >"$work/abi.txt"
if [ "${1:-}" = --update ]; then
	cp "$work/abi.txt" test/abi.txt
	exit
fi
if [ "$(getconf LONG_BIT)" != 64 ]; then
	skip "abi" "the record is of 64 bits"
	finish
fi
# A sanitizer adds symbols of its own.
result abi_is_what_it_was "$(grep -v '__\(asan\|tsan\|ubsan\|odr\)' "$work/abi.txt" | diff test/abi.txt - | head -20)"

# sys/sdt.h was there: then the probes are in the library.
if echo '#include <sys/sdt.h>' | "$CC" -E - >/dev/null 2>&1; then
	for probe in schedule cancel expire tick; do
		readelf -n "$BUILD/libhwt.so" | grep -q "Name: $probe\$" || echo "$probe is missing"
	done >"$work/probes"
	result probes_are_there "$(cat "$work/probes")"
else
	skip probes_are_there "no sys/sdt.h"
fi
result only_hwt_is_exported "$(grep '^[A-Z] ' "$work/abi.txt" | grep -v '^[TD] hwt_\|__\(asan\|tsan\|ubsan\|odr\)')"
finish
