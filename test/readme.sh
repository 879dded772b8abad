#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The C programs in README.md compile without a warning and do what the text beside them says.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
san=${SAN:-}

awk '/^```c$/ { on = 1; n++; next } /^```$/ { on = 0 } on { print > (dir "/" n ".c") }' dir="$work" README.md
for file in "$work"/*.c; do
	name=readme_program_$(basename "$file" .c)
	# shellcheck disable=SC2086 # flags
	if ! "$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror ${san:+-fsanitize=$san} -Iinclude "$file" "$BUILD/libhwt.a" \
		-pthread -o "$work/program" || ! timeout 60 "$work/program" >"$work/out"; then
		echo "FAIL $name"
		exit 1
	fi
	# What a program prints stands in the README as its output.
	while IFS= read -r line; do
		grep -qF -- "$line" README.md || { echo "printed, not in README: $line"; echo "FAIL $name"; exit 1; }
	done <"$work/out"
	echo "ok $name"
done
