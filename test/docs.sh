#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The programs in README.md, doc/guide.md, store/doc/{store,calendars,groups}.md and store/doc/hwt_store.3 compile without a warning and do
# what the text beside them says.  Those on a store are left out when it was not built, those on PostgreSQL when no server is there.
#
# Markdown   a block ```c or ```cpp (C++20) is a program; a block ```text that follows it, before the next program, holds lines that it
#            prints.  What a program prints must stand in the file, outside of programs.  "```c fragment" is no program.
# Man page   .\" program, then the text from .Bd -literal to .Ed; lines .\" prints TEXT name what it prints.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
CC=${CC:-cc}
CXX=${CXX:-c++}
LIMIT_S=600
. test/result.sh
. store/test/with_server.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Programs to $work/N.c or N.cpp, with N from 1; the lines they are to print to $work/N.text; all but programs to $work/prose.
extract_markdown() {
	awk -v dir="$work" '
		/^```/ && on { on = 0; next }
		/^```c$/ || /^```cpp$/ { on = 1; out = dir "/" ++n "." substr($0, 4); next }
		/^```text$/ { on = 1; out = n ? dir "/" n ".text" : "/dev/null"; next }
		/^```/ { on = 1; out = "/dev/null"; next }
		on { print > out }
		!on || out !~ /\.c(pp)?$/ { print > (dir "/prose") }
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

# The store's libraries, as far as they are there.
store_flags() { # --cflags or --libs
	for package in sqlite3 libpq; do
		! "${PKG_CONFIG:-pkg-config}" --exists $package 2>/dev/null || "${PKG_CONFIG:-pkg-config}" "$1" $package
	done | sed 's/-I/-isystem /g' | tr '\n' ' '
}

compile() { # PROGRAM SOURCE
	# shellcheck disable=SC2046 # words
	if grep -q 'hwt_store\.h' "$2"; then
		set -- "$1" "$2" "$BUILD/libhwt-store.a" $(store_flags --cflags) "$BUILD/libhwt.a" $(store_flags --libs)
	else
		set -- "$1" "$2" "$BUILD/libhwt.a"
	fi
	program=$1 program_source=$2
	shift
	case $program_source in
	*.cpp) compiler="$CXX -std=c++20" ;;
	*) compiler="$CC -std=c11" ;;
	esac
	# shellcheck disable=SC2086 # the compiler and its standard
	$compiler -Wall -Wextra -Wpedantic -Werror ${SAN:+"-fsanitize=$SAN"} -Iinclude -Istore/include "$@" -pthread -o "$program"
}

lacks() { # SOURCE: what this machine lacks for it
	if [ "${1%.cpp}" != "$1" ] && ! command -v "${CXX%% *}" >/dev/null 2>&1; then
		echo "no C++ compiler"
	elif grep -q 'hwt_store\.h' "$1" && [ ! -e "$BUILD/libhwt-store.a" ]; then
		echo "the store was not built"
	elif grep -q 'libpq-fe\.h' "$1" && [ -z "${HWT_STORE_PG_URL:-}" ]; then
		echo "no PostgreSQL server is installed"
	elif grep -q 'hwt_store\.h' "$1" && ! has_engine "$(grep -q 'libpq-fe\.h' "$1" && echo "$HWT_STORE_PG_URL" ||
		echo "sqlite:$work/engine.db")"; then
		echo "the store was built without this engine"
	fi
}

has_engine() { # URL
	! "$BUILD/examples/jobs" -d "$1" list 2>&1 | grep -q 'built without the engine'
}

missing() { # WHAT LINES FILE HOW: those that FILE does not have, by grep HOW
	while IFS= read -r line || [ -n "$line" ]; do
		grep -q "$4" -- "$line" "$3" || echo "$1: $line"
	done <"$2"
}

check() { # FILE SOURCE: says what is wrong
	text=${2%.*}.text
	compile "$work/program" "$2" 2>&1 || { echo "does not compile"; return; }
	rm -rf "$work/folder" && mkdir "$work/folder"
	(cd "$work/folder" && exec timeout -k 5 "$LIMIT_S" "$work/program") >"$work/out" 2>"$work/err" ||
		{ echo "exit $?"; cat "$work/out" "$work/err"; return; }
	[ -s "$work/out" ] || echo "prints nothing"
	[ ! -e "$text" ] || missing "not printed" "$text" "$work/out" -Fx
	case $1 in
	*.md) missing "printed, not said in $1" "$work/out" "$work/prose" -F ;;
	esac
}

for file in README.md doc/guide.md store/doc/store.md store/doc/calendars.md store/doc/groups.md store/doc/hwt_store.3; do
	prefix=docs_$(basename "$file" | sed 's/\..*//')
	rm -rf "${work:?}"/*
	case $file in
	*.3) [ -e "$file" ] || continue
		extract_man_page "$file" ;;
	*) extract_markdown "$file" ;;
	esac
	n=1
	while source=$(ls "$work/$n.c" "$work/$n.cpp" 2>/dev/null); [ -n "$source" ]; do
		lacking=$(lacks "$source")
		if [ -n "$lacking" ]; then
			skip "${prefix}_$n" "$lacking"
		else
			result "${prefix}_$n" "$(check "$file" "$source")"
		fi
		n=$((n + 1))
	done
	# A marker without its program ends the count early.
	result "${prefix}_all" "$([ $n -gt 1 ] || echo "$file has no program"
		for left in "$work"/[0-9]*; do
			left=$(basename "$left")
			[ "${left%%.*}" -lt $n ] || echo "no program before $left"
		done 2>/dev/null)"
done

# Words behind which the one that acts has no name, or that a native engineer would not write (CONTRIBUTING.md, "English").
words='[Ww]ho|[Ww]hoever|[Ww]hom|[Hh]e|[Hh]is|[Hh]im|[Hh]imself|[Aa]new|[Ww]ant of|at the most|whose place it is'
words="$words|(is|are|was|were|gets|get|has|have) through"
result sentences_name_what_acts "$(grep -rnwE "$words" src include store/src store/include store/doc doc examples bindings store/examples ./*.md bench/*.md store/*.md store/bench/*.md)"

# Comments that readers took for something else, as the thing they speak of has no name in them (CONTRIBUTING.md, "English").
nameless='of a moment ago|with nothing changed, without|so many ticks|something has happened to|burnt down|Those that are not locked'
nameless="$nameless|With the lock: what|Also of a ring|for others, and|it is overdue"
result comments_name_their_thing "$(grep -rnE --include='*.[ch]' --include='*.sql' "$nameless" src include store/src store/sql store/include test store/test
	grep -rnw --include='*.[ch]' --include='*.sql' 'so many' src include store/src store/sql store/include)"

result docs_lead_to_what_is_there "$(for file in $(git ls-files '*.md' 2>/dev/null); do
	grep -oE '\]\([^)#: ]+[)#]' "$file" | sed 's/^](//; s/[)#]$//' | while read -r target; do
		[ -e "$(dirname "$file")/$target" ] || echo "$file: $target"
	done
	grep -oE '\]\(#[^)]+\)' "$file" | sed 's/^](#//; s/)$//' | while read -r anchor; do
		sed -n 's/^##* //p' "$file" | tr 'A-Z ' 'a-z-' | tr -d "'.,()" | grep -qx -- "$anchor" || echo "$file: #$anchor"
	done
done)"

# What texts and comments call by its file's name is there: a rename leaves no old name behind.  The libraries have files of the
# same names, so those of the store are looked for in the store.  hwt.c is what `make amalgamation` makes; the others are not
# of this tree.
named() { # FILES-OF FOLDER...: the names in comments and documents of the folders that no file below FILES-OF has
	find "$1" \( -name .git -o -name 'build*' \) -prune -o -type f -print | sed 's#.*/##' | sort -u >"$work/files"
	shift
	{
		grep -rhoE --include='*.md' --exclude-dir='build*' '`[A-Za-z0-9_./-]+\.(c|h|hpp|cpp|sh|sql|pl|py|mk|md|awk)`' "$@" |
			tr -d '`' | sed 's#.*/##'
		grep -rhvE --include='*.[ch]' --exclude-dir='build*' '# *include' "$@" | grep -oE '\b[a-z_0-9]+\.[ch]\b'
	} | sort -u | grep -vxE 'hwt\.(c|h|hpp)|ck_[a-z]+\.h|sdt\.h|tsc\.c|membarrier\.h' | comm -23 - "$work/files"
}
result files_that_are_named_are_there "$(named . src include ./*.md doc bench bindings examples; named store store/src store/include store/doc store/sql)"

# The rights that store/doc/store.md grants are enough: the owner makes the tables, the program's role runs.
rights() {
	sed -n '/^```sql$/,/^```$/p' store/doc/store.md | grep -v '^```' >"$work/rights.sql"
	"$HWT_STORE_PG_BIN/psql" -q -v ON_ERROR_STOP=1 -d "$HWT_STORE_PG_URL" -c 'CREATE DATABASE rights' || return
	url=$(echo "$HWT_STORE_PG_URL" | sed 's#^postgresql://hwt@/postgres?#postgresql://USER@/rights?#')
	as() { # ROLE
		echo "$url" | sed "s#USER#$1#"
	}
	"$HWT_STORE_PG_BIN/psql" -q -v ON_ERROR_STOP=1 -d "$(as hwt)" -f "$work/rights.sql" || return
	timeout 600 "$BUILD/examples/jobs" -d "$(as timeouts_app)" list 2>/dev/null && echo "the program makes tables"
	timeout 600 "$BUILD/examples/jobs" -d "$(as timeouts_owner)" list || echo "the owner: exit $?"
	timeout 600 "$BUILD/examples/jobs" -d "$(as timeouts_app)" add 0 'with few rights' >/dev/null || echo "exit $?"
	timeout 600 "$BUILD/examples/jobs" -d "$(as timeouts_app)" run -t 300 -e | grep -qx 'with few rights' || echo "did not run"
	# What the views show is what the document shows.
	timeout 600 "$BUILD/examples/jobs" -d "$(as timeouts_app)" add 3600000 'call her' -k alice -e 60 >/dev/null || echo "exit $?"
	look=$(sed -n 's/^\$ psql -c "\(.*\)"$/\1/p' store/doc/store.md)
	sed -n '/^\$ psql -c/,/^```$/p' store/doc/store.md | sed '1d;/^```$/d' >"$work/shown"
	"$HWT_STORE_PG_BIN/psql" -P footer=off -d "$(as timeouts_app)" -c "$look" | sed 's/ *$//; /^$/d' | diff "$work/shown" - || echo "hwt_timeouts"
	"$HWT_STORE_PG_BIN/psql" -q -At -d "$(as timeouts_app)" -c 'SELECT kind FROM hwt_kinds' | grep -qx job || echo "hwt_kinds"
}
if [ -x "$BUILD/examples/jobs" ] && [ -n "${HWT_STORE_PG_URL:-}" ] && has_engine "$HWT_STORE_PG_URL"; then
	result docs_store_rights "$(rights 2>&1)"
else
	skip docs_store_rights "no PostgreSQL here"
fi
finish
