#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# abi.sh [--update]: what programs are built against, symbols, layouts and values, is what test/abi.txt and
# store/test/abi_store.txt say.  A change has to touch that file, on purpose.  (Of machines with 64 bits.)
# packaging/releases/ has those of each release, which have to be in today's: `make record`.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# HEADER: prints every member of every public structure, every enumerator and every number that the header names.
program() {
	printf '#include <%s>\n#include <stdio.h>\n' "${1##*/}"
	printf '#define SIZE(type) printf("sizeof %%s = %%zu\\n", #type, sizeof(type));\n'
	printf '#define AT(type, member) printf("%%s.%%s at %%zu, %%zu bytes\\n", #type, #member, offsetof(type, member), '
	printf 'sizeof(((type *)0)->member));\n'
	printf '#define VALUE(name) printf("%%s = %%lld\\n", #name, (long long)(name));\nint main(void)\n{\n'
	sed 's#/\*.*\*/##' "$1" | awk '
	/^[ \t]*\/\*/ && !/\*\// { comment = 1 }
	comment { if (/\*\//) comment = 0; next }
	/^typedef struct hwt_[a-z_]+ \{/ { type = $3; print "SIZE(" type ")"; next }
	/^typedef enum hwt_[a-z_]+ \{/ { enumeration = 1; next }
	/^\}/ { type = ""; enumeration = 0 }
	type != "" && /;/ {
		line = $0
		if (match(line, /\(\*[a-z_]+\)/))
			names = substr(line, RSTART + 2, RLENGTH - 3)
		else {
			sub(/;.*/, "", line); gsub(/\[[^]]*\]/, "", line)
			names = line; sub(/^[ \t]*(const )?[a-z_0-9]+ \**/, "", names)
		}
		n = split(names, name, /,[ ]*\**/)
		for (i = 1; i <= n; i++) print "AT(" type ", " name[i] ")"
	}
	enumeration && /HWT_/ { sub(/\/\*.*/, ""); gsub(/[, \t]/, ""); sub(/=.*/, ""); print "VALUE(" $0 ")" }
	/^#define HWT_[A-Z_]+ (\(\([a-z_]+\))?[0-9]+u?/ && !/VERSION/ { print "VALUE(" $2 ")" }'
	printf 'return 0;\n}\n'
}

# HEADER LIBRARY RECORD: compares, or with --update writes.
check() {
	program "$1" >"$work/abi.c"
	$CC -std=c11 -Iinclude -Istore/include "$work/abi.c" -o "$work/abi" 2>"$work/log" ||
		{ result "abi_program_of_${1##*/}" "$(cat "$work/log")"; return; }
	{
		readelf -d "$BUILD/$2" | sed -n 's/.*(SONAME).*\[\(.*\)\]/soname \1/p'
		nm -D --defined-only "$BUILD/$2" | awk '{ print $2, $3 }' | sed 's/@.*//' | sort
		"$work/abi"
	} >"$work/abi.txt"
	if [ "$mode" = --update ]; then
		cp "$work/abi.txt" "$3"
		return
	fi
	# A sanitizer adds symbols of its own.
	# The order in which the header has them does not matter.
	sort "$3" >"$work/record"
	result "abi_of_${2%.so}_is_what_it_was" "$(grep -v '__\(asan\|tsan\|ubsan\|odr\)' "$work/abi.txt" | sort |
		diff "$work/record" - | head -20)"
	result "only_hwt_is_exported_by_${2%.so}" "$(grep '^[A-Z] ' "$work/abi.txt" |
		grep -v '^[TD] hwt_\|^A HWT_\|__\(asan\|tsan\|ubsan\|odr\)')"
}

mode=${1:-}
if [ "$(getconf LONG_BIT)" != 64 ]; then
	skip "abi" "the record is of 64 bits"
	finish
fi
check include/hwt.h libhwt.so test/abi.txt
if [ -e "$BUILD/libhwt-store.so" ]; then
	check store/include/hwt_store.h libhwt-store.so store/test/abi_store.txt
else
	skip abi_of_libhwt-store_is_what_it_was "it was not built"
fi
[ "$mode" != --update ] || exit 0

# OLD NEW: what programs that were built with the first miss in the second.  A structure may have grown at its end.
missed() {
	awk 'FNR == NR { now[$0] = 1; if ($1 == "sizeof") size[$2] = $4; next }
		$1 == "sizeof" ? size[$2] < $4 : !($0 in now) { print FILENAME ": " $0 }' "$2" "$1"
}
for release in packaging/releases/*/; do
	result "programs_built_with_$(basename "$release")_run" "$(missed "${release}abi.txt" test/abi.txt
		missed "${release}abi_store.txt" store/test/abi_store.txt)"
done
result each_release_has_its_record "$(sed -n 's/^## \([0-9.]*\) (20.*/\1/p' CHANGES.md | while read -r release; do
	for file in abi.txt abi_store.txt postgresql.sql sqlite.sql; do
		[ -s "packaging/releases/$release/$file" ] || echo "no packaging/releases/$release/$file"
	done
done)"

result debian_symbols_are_those_of_the_map "$(for pair in src/hwt.map:libhwt0 store/src/hwt_store.map:libhwt-store0; do
	sed -n 's/^\t\t\(hwt[a-z_]*\);/\1/p' "${pair%:*}" | sort >"$work/map"
	sed -n 's/^ \(hwt[a-z_]*\)@.*/\1/p' "packaging/debian/${pair#*:}.symbols" | sort | diff "$work/map" - 2>&1
done)"

# What carries the version by hand.  Of a symbol it is the one that brought it: no later one.
version=$(sed -n 's/^#define HWT_VERSION_[A-Z]* //p' include/hwt.h | paste -sd. -)
result packages_have_the_version_of_the_header "$(
	sed -n 's/.*"version": "\(.*\)".*/\1/p' packaging/vcpkg/libhwt/vcpkg.json | sed 's/^/vcpkg /' >"$work/versions"
	sed -n '1s/.*(\(.*\)-[^-]*).*/debian \1/p' packaging/debian/changelog >>"$work/versions"
	sed -n 's/.*conan create.* --version \([^ ]*\).*/conan \1/p' packaging/conan/conanfile.py >>"$work/versions"
	sed -n 's/^version = "\(.*\)"/python \1/p' bindings/python/pyproject.toml >>"$work/versions"
	printf '%s\n' "vcpkg $version" "debian $version" "conan $version" "python $version" | diff - "$work/versions" 2>&1
	for symbols in packaging/debian/*.symbols; do
		sed -n 's/^ [^ ]* //p' "$symbols" >"$work/versions"
		[ -s "$work/versions" ] || echo "$symbols: no versions"
		last=$({ cat "$work/versions"; echo "$version"; } | sort -uV | tail -1)
		[ "$last" = "$version" ] || echo "$symbols: $last is later than $version"
	done)"

# sys/sdt.h was there: then the probes are in the library.
if echo '#include <sys/sdt.h>' | $CC -E - >/dev/null 2>&1; then
	for probe in schedule cancel expire tick; do
		readelf -n "$BUILD/libhwt.so" | grep -q "Name: $probe\$" || echo "$probe is missing"
	done >"$work/probes"
	result probes_are_there "$(cat "$work/probes")"
else
	skip probes_are_there "no sys/sdt.h"
fi
finish
