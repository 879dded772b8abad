#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The examples at the head of hwt.hpp and hwt_store.hpp are compiled and run as they stand, by each compiler, optimised, and under
# AddressSanitizer.  Only the path of the database is another.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
san=${SAN:-address,undefined}

# HEADER: paragraphs up to the first heading; the one with co_await to sleep.inc, the others to use.inc.
extract() {
	rm -f "$work"/*.inc
	sed -n '1,/^ \* [A-Z][a-z]*$/{s/^ \*     //p; s/^ \*$//p;}' "$1" | sed "s#sqlite:/var/lib/app/#sqlite:$work/#" |
		awk -v dir="$work" 'BEGIN { RS = "" } { print > (dir (/co_await/ ? "/sleep.inc" : "/use.inc")) }'
	sed -i 's/^\.\.\.$//' "$work"/*.inc
}

libraries() { # HEADER
	if [ "$1" = hwt_store.hpp ]; then
		echo "$BUILD/libhwt-store.a $BUILD/libhwt.a"
		for package in sqlite3 libpq; do
			! "${PKG_CONFIG:-pkg-config}" --exists $package 2>/dev/null || "${PKG_CONFIG:-pkg-config}" --libs $package
		done
	else
		echo "$BUILD/libhwt.a"
	fi
}

check() { # COMPILER HEADER FLAGS
	cxx=$1 header=$2
	shift 2
	# shellcheck disable=SC2046 # words
	$cxx -std=c++20 -Wall -Wextra -Wpedantic -Wno-misleading-indentation -Werror "$@" "-DEXAMPLE=<$header>" -Iinclude -Istore/include -I"$work" \
		$([ ! -e "$work/sleep.inc" ] || echo -DSLEEPS) -o "$work/program" test/hpp_example.cpp $(libraries "$header") -pthread 2>&1 ||
		{ echo "does not compile"; return; }
	rm -f "$work"/*.db*
	timeout -k 5 600 "$work/program" >"$work/out" 2>&1 || echo "exit $?"
	{ [ ! -e "$work/sleep.inc" ] || echo slept; echo used; } | diff - "$work/out"
}

for header in hwt.hpp hwt_store.hpp; do
	extract "$(find include store/include -name $header)"
	name=$(basename $header .hpp)
	result "example_of_${name}_is_there" "$([ -s "$work/use.inc" ] || echo "nothing in $header"
		[ $header != hwt.hpp ] || [ -s "$work/sleep.inc" ] || echo "no coroutine in $header")"
	for cxx in g++ clang++; do
		if ! command -v $cxx >/dev/null 2>&1; then
			skip "example_of_${name}_by_$cxx" "not installed"
		elif [ $header = hwt_store.hpp ] && [ ! -e "$BUILD/libhwt-store.a" ]; then
			skip "example_of_${name}_by_$cxx" "the store was not built"
		else
			[ -n "${SAN:-}" ] || result "example_of_${name}_by_$cxx" "$(check $cxx $header -O2)"
			result "example_of_${name}_by_${cxx}_under_sanitizers" "$(check $cxx $header -O0 "-fsanitize=$san")"
		fi
	done
done
finish
