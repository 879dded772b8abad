#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The page of hwt-jobs serve, in a headless Chromium, on SQLite, and on PostgreSQL where a server is installed:
# serve_page.py.  HWT_SHOT=FILE: a picture for store/doc.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/result.sh
what=serve_page
if ! command -v chromedriver >/dev/null 2>&1; then
	skip serve_page "no chromedriver, which drives Chromium"
	finish
fi
. store/test/with_serve.sh
exec "$python" store/test/serve_page.py "${HWT_STORE_PG_URL:-}"
