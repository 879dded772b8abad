#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# compare.sh [TIMERS]: compare.lua, once for each side, each in an nginx of its own.  Needs nginx with ngx_lua and curl.
# SERVER and MODULES: the program of nginx and its folder of modules.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
export LD_LIBRARY_PATH="$root/${BUILD:-build}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cp "$here"/nginx.conf "$here"/*.lua "$here/../hwt.lua" "$work"
ln -s "${MODULES:-/usr/lib/nginx/modules}" "$work/modules"
[ "$(id -u)" -ne 0 ] || echo "user $(id -un);" >>"$work/nginx.conf"

cd "$work"
for by in ngx hwt; do
	"${SERVER:-nginx}" -p "$work/" -c nginx.conf &
	server=$!
	while kill -0 "$server" && [ ! -S nginx.sock ]; do sleep 0.1; done
	curl -sS --unix-socket nginx.sock "http://x/compare?by=$by&n=${1:-100000}"
	kill "$server"
	wait "$server" || :
	server=
done
