#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs the rivals, and what draws the pictures and counts instructions, as far as Debian has them.
set -eu
if ! command -v apt-get >/dev/null 2>&1; then
	echo "bench-deps: made for Debian; see bench/README.md for what the rivals need" >&2
	exit 1
fi
as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}
as_root apt-get update -q
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
	pkg-config g++ libevent-dev libuv1-dev libboost-dev libglib2.0-dev libnetty-java default-jdk-headless \
	golang-go gnuplot-nox valgrind
