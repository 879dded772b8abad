#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What can be found without running: gcc -fanalyzer, clang-tidy and cppcheck over src/ (.clang-tidy says which checks), shellcheck over the scripts.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh

have() {
	command -v "$1" >/dev/null 2>&1 && return
	skip "static_$1" "not installed"
	return 1
}

sources='src/timer/*.c src/worker/*.c src/wheel/*.c src/lane/*.c src/base/*.c'
flags='-std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc'
store='' store_flags=''
if pkg-config --exists sqlite3 libpq 2>/dev/null; then
	store='store/src/*/*.c'
	store_flags="-Istore/include -Istore/src -I${BUILD:-build}/made -DHWT_STORE_SQLITE -DHWT_STORE_POSTGRES $(pkg-config --cflags sqlite3 libpq | sed 's/-I/-isystem /g')"
fi

if have gcc; then
	# shellcheck disable=SC2086 # flags
	result gcc_analyzer "$(for file in $sources $store; do
		gcc $flags $store_flags -O1 -fanalyzer -c "$file" -o /dev/null 2>&1; done)"
fi
if have clang-tidy; then
	# A process for each file: version 14 loses findings of all but the first.  One that ends badly has found something.
	# shellcheck disable=SC2016,SC2086 # expanded by the shell that xargs starts; words
	result clang_tidy "$(printf '%s\n' $sources $store | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 sh -c '
		said=$(clang-tidy --quiet --warnings-as-errors="*" "$1" -- $0 2>/dev/null) || printf "%s: %s\n" "$1" "$said"' \
		"$flags $store_flags" | grep -E 'warning|error|^[^ ]*: *$')"
fi
if have cppcheck; then
	# shellcheck disable=SC2086 # flags
	result cppcheck "$(cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr -D__GNUC__ \
		-DHWT_STORE_SQLITE -DHWT_STORE_POSTGRES -Iinclude -Isrc -Istore/include -Istore/src -I${BUILD:-build}/made --error-exitcode=1 $sources $store 2>&1)"
fi
if have clang-format; then
	result clang_format "$(clang-format --dry-run src/*/*.[ch] store/src/*/*.[ch] store/include/*.h test/check/*.[ch] test/weak/*.[ch] test/sim/*.[ch] include/*.h include/*.hpp store/include/*.hpp test/*.[ch] store/test/*.[ch] test/*.cpp store/test/*.cpp 2>&1 | head -5)"
fi
if have mandoc; then
	result mandoc "$(mandoc -Tlint -W warning store/doc/hwt_store.3 2>&1)"
fi
if have shellcheck; then
	result shellcheck "$(shellcheck -x -S warning deps.sh test/*.sh store/test/*.sh bench/*.sh bench/wheels/*.sh store/bench/*.sh store/bench/rivals/*.sh model/run.sh packaging/*.sh .ci/run 2>&1)"
fi
finish
