#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# bindings/python: its tests on SQLite and on a PostgreSQL of their own, its types, the program of its README, and pip.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/result.sh
BUILD=${BUILD:-build}
[ -z "${SAN:-}" ] || { skip python "the interpreter would need the sanitizer, too"; finish; }
[ -e "$BUILD/libhwt-store.so" ] || { skip python "the store was not built"; finish; }
# The system's, for which there are packages.
for python in /usr/bin/python3 python3 ''; do
	[ -n "$python" ] && "$python" -c 'import cffi, pytest, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && break
done
[ -n "$python" ] || { skip python "no python3 (3.9) with cffi and pytest"; finish; }
. store/test/with_server.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
BUILD=$(cd "$BUILD" && pwd)
# What is tried is a copy: nothing is written into the tree.
cp -R bindings/python "$work/package"
unset PYTHONPATH HWT_STORE_LIBRARY
export PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH="$BUILD" HWT_BUILD="$BUILD" HWT_TREE="$PWD" HWT_PYTEST_TAP="$work/tap"

# shellcheck disable=SC2031 # in the environment of this command alone
(cd "$work/package" && HWT_STORE_URL=${HWT_STORE_PG_URL:-} PYTHONPATH=. timeout 3600 "$python" -m pytest -q) >"$work/log" 2>&1
rc=$?
sed -n 's/ok [0-9]* - /ok /p' "$work/tap" >"$work/results"
while read -r result name; do
	case $result/$name in
	not/*) result "python_${name#ok }" "its words are those of python_tests" ;;
	*' # SKIP '*) skip "python_${name%% #*}" "${name#*# SKIP }" ;;
	*) result "python_$name" "" ;;
	esac
done <"$work/results"
result python_tests "$([ $rc -eq 0 ] || cat "$work/log")"

if "$python" -c 'import mypy' 2>/dev/null; then
	result python_types "$(cd "$work/package" && "$python" -m mypy --cache-dir "$work/mypy" hwt_store tests 2>&1 |
		grep -v '^Success')"
else
	skip python_types "no mypy"
fi

# As `pip install .` does, without what pip would fetch.
if "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
	"$python" -m pip install -q --no-build-isolation --no-deps --no-index --target "$work/site" "$work/package" >"$work/log" 2>&1
	result python_pip_installs "$([ -e "$work/site/hwt_store/py.typed" ] || cat "$work/log")"
else
	skip python_pip_installs "no pip, setuptools or wheel"
	cp -R "$work/package" "$work/site"
fi

version=$(sed -n 's/^#define HWT_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/hwt.h | paste -sd. -)
result python_version "$(grep -qx "version = \"$version\"" bindings/python/pyproject.toml || echo "pyproject.toml: not $version"
	grep -q "^VERSION = \"${version%.*}\"" bindings/python/hwt_store/_lib.py || echo "_lib.py: not ${version%.*}")"

# The first program of the README, on PostgreSQL and installed, prints what stands below it.
part() { # LANGUAGE
	awk -v begin="\`\`\`$1" '$0 == begin && !over { on = 1; next } /^```/ && on { on = 0; over = 1 } on' bindings/python/README.md
}
part python | sed "s#postgresql:///app#sqlite:$work/app.db#" >"$work/program.py"
part text >"$work/text"
result python_readme "$(PYTHONPATH=$work/site timeout 600 "$python" "$work/program.py" 2>&1 | diff "$work/text" -
	[ "$(part python | wc -l)" -le 25 ] || echo "more than 25 lines")"
finish
