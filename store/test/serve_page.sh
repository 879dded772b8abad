#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The page of hwt-jobs serve, in a headless Chromium, on SQLite, and on PostgreSQL where a server is installed:
# serve_page.py.  HWT_SHOT=FILE: a picture for store/doc.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/result.sh
export BUILD="${BUILD:-build}"
if [ ! -x "$BUILD/hwt-jobs" ]; then
	skip serve_page "$BUILD/hwt-jobs was not built"
	finish
fi
work=$(mktemp -d)
"$BUILD/hwt-jobs" -d "sqlite:$work/x.db" put x y --make --at 1h >"$work/said" 2>&1
"$BUILD/hwt-jobs" -d "sqlite:$work/x.db" serve --listen nowhere >>"$work/said" 2>&1
without=$(grep 'built without' "$work/said")
rm -rf "$work"
if [ -n "$without" ]; then
	skip serve_page "$without"
	finish
fi
if ! command -v chromedriver >/dev/null 2>&1; then
	skip serve_page "no chromedriver, which drives Chromium"
	finish
fi
for python in /usr/bin/python3 python3 ''; do
	[ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && break
done
if [ -z "$python" ]; then
	skip serve_page "no python3 (3.9)"
	finish
fi
. store/test/with_server.sh
PYTHONDONTWRITEBYTECODE=1 exec "$python" store/test/serve_page.py "${HWT_STORE_PG_URL:-}"
