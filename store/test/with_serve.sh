# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests of hwt-jobs serve, with their name in what: skips them where the tool, its server or a python3 is
# missing.  Sets python, and HWT_STORE_PG_URL where a server of PostgreSQL is installed.
# shellcheck shell=sh disable=SC2154 # what
export BUILD="${BUILD:-build}"
if [ ! -x "$BUILD/hwt-jobs" ]; then
	skip "$what" "$BUILD/hwt-jobs was not built"
	finish
fi
work=$(mktemp -d)
"$BUILD/hwt-jobs" -d "sqlite:$work/x.db" put x y --make --at 1h >"$work/said" 2>&1
"$BUILD/hwt-jobs" -d "sqlite:$work/x.db" serve --listen nowhere >>"$work/said" 2>&1
without=$(grep 'built without' "$work/said")
rm -rf "$work"
if [ -n "$without" ]; then
	skip "$what" "$without"
	finish
fi
for python in /usr/bin/python3 python3 ''; do
	[ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && break
done
if [ -z "$python" ]; then
	skip "$what" "no python3 (3.9)"
	finish
fi
. store/test/with_server.sh
export PYTHONDONTWRITEBYTECODE=1
