#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hwt-jobs serve keeps the rules of its page, on SQLite, and on PostgreSQL where a server is installed: serve.py asks it.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/result.sh
what=serve
. store/test/with_serve.sh
exec "$python" store/test/serve.py "${HWT_STORE_PG_URL:-}"
