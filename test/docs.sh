#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The programs in README.md, doc/guide.md and doc/hwt.3 compile without a warning and do what the text beside them says.
#
# Markdown   a block ```c is a program; a block ```text that follows it, before the next program, holds lines that it
#            prints.  What a program prints must stand in the file, outside of programs.  "```c fragment" is no program.
# Man page   .\" program, then the text from .Bd -literal to .Ed; lines .\" prints TEXT name what it prints.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
CC=${CC:-cc}
LIMIT_S=20
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. test/result.sh

# Programs to $work/N.c, with N from 1; the lines they are to print to $work/N.text; all but programs to $work/prose.
extract_markdown() {
	awk -v dir="$work" '
		/^```/ && on { on = 0; next }
		/^```c$/ { on = 1; out = dir "/" ++n ".c"; next }
		/^```text$/ { on = 1; out = n ? dir "/" n ".text" : "/dev/null"; next }
		/^```/ { on = 1; out = "/dev/null"; next }
		on { print > out }
		!on || out !~ /\.c$/ { print > (dir "/prose") }
	' "$1"
}

extract_man_page() {
	awk -v dir="$work" '
		/^\.\\" program$/ { wanted = 1; n++; next }
		/^\.\\" prints / { if (n) print substr($0, 12) > (dir "/" n ".text"); next }
		/^\.Bd -literal/ && wanted { on = 1; wanted = 0; next }
		/^\.Ed/ { on = 0 }
		!on || /^\.\\"/ { next }
		{
			gsub(/\\\(aq/, "\047"); gsub(/\\\(dq/, "\""); gsub(/\\&/, ""); gsub(/\\-/, "-"); gsub(/\\e/, "\\")
			print > (dir "/" n ".c")
		}
	' "$1"
}

compile() { # PROGRAM SOURCE
	"$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror ${SAN:+"-fsanitize=$SAN"} -Iinclude "$2" "$BUILD/libhwt.a" \
		-pthread -o "$1"
}

missing() { # WHAT LINES FILE HOW: those that FILE does not have, by grep HOW
	while IFS= read -r line || [ -n "$line" ]; do
		grep -q "$4" -- "$line" "$3" || echo "$1: $line"
	done <"$2"
}

check() { # FILE SOURCE: says what is wrong
	text=${2%.*}.text
	compile "$work/program" "$2" 2>&1 || { echo "does not compile"; return; }
	timeout -k 5 "$LIMIT_S" "$work/program" >"$work/out" 2>"$work/err" ||
		{ echo "exit $?"; cat "$work/out" "$work/err"; return; }
	[ -s "$work/out" ] || echo "prints nothing"
	[ ! -e "$text" ] || missing "not printed" "$text" "$work/out" -Fx
	case $1 in
	*.md) missing "printed, not said in $1" "$work/out" "$work/prose" -F ;;
	esac
}

for file in README.md doc/guide.md doc/hwt.3; do
	prefix=docs_$(basename "$file" | sed 's/\..*//')
	rm -f "$work"/*
	case $file in
	*.3) [ -e "$file" ] || continue
		extract_man_page "$file" ;;
	*) extract_markdown "$file" ;;
	esac
	n=1
	while [ -e "$work/$n.c" ]; do
		result "${prefix}_$n" "$(check "$file" "$work/$n.c")"
		n=$((n + 1))
	done
	# A marker without its program ends the count early.
	result "${prefix}_all" "$([ $n -gt 1 ] || echo "$file has no program"
		for left in "$work"/[0-9]*; do
			left=$(basename "$left")
			[ "${left%%.*}" -lt $n ] || echo "no program before $left"
		done 2>/dev/null)"
done
finish
