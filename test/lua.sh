#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# bindings/lua/hwt.lua under LuaJIT: compiled and interpreted, and as on processors on which a handle is passed otherwise.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
BUILD=${BUILD:-build}
[ -z "${SAN:-}" ] || { skip lua "the interpreter would need the sanitizer, too"; finish; }
lua=$(command -v luajit || command -v luajit2) || { skip lua "no luajit"; finish; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

under() { # NAME FILE OPTION...
	what=$1 file=$2
	shift 2
	LD_LIBRARY_PATH=$BUILD timeout 600 "$lua" "$@" "$file" test/abi.txt >"$work/log" 2>&1 ||
		echo "# ended with status $?" >>"$work/log"
	result "lua_$what" "$(grep -v '^ok\|^1\.\.\|^# HWT_SEED' "$work/log" && grep HWT_SEED "$work/log")"
}

under compiled bindings/lua/test.lua
under interpreted bindings/lua/test.lua -joff
cp bindings/lua/test.lua "$work" && sed 's/^local flat = .*/local flat = false/' bindings/lua/hwt.lua >"$work/hwt.lua"
under with_handles_by_value "$work/test.lua"

# The program of the README prints what stands below it.
part() { # LANGUAGE
	awk -v begin="\`\`\`$1" '$0 == begin { on = 1; next } /^```/ { on = 0 } on' bindings/lua/README.md
}
part lua >"$work/program.lua"
result lua_readme "$(part text >"$work/text"
	LUA_PATH="bindings/lua/?.lua" LD_LIBRARY_PATH=$BUILD timeout 600 "$lua" "$work/program.lua" 2>&1 | diff "$work/text" -)"
finish
