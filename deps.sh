#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs what the build and the tests need and this machine lacks, with the system's package manager; `deps.sh deb` also
# what `make deb` needs.  Does nothing when all is there.
set -eu
CC=${CC:-cc}

have_ck() {
	command -v "${CC%% *}" >/dev/null 2>&1 && echo '#include <ck_fifo.h>' | $CC -E - >/dev/null 2>&1
}

have_libc() {
	command -v "${CC%% *}" >/dev/null 2>&1 && echo '#include <pthread.h>' | $CC -E - >/dev/null 2>&1
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		echo "deps: needs root to run: $*" >&2
		exit 1
	fi
}

packages_missing() {
	command -v "${CC%% *}" >/dev/null 2>&1 || printf '%s ' "$1"
	have_libc || printf '%s ' "$2"
	have_ck || printf '%s ' "$3"
	command -v prove >/dev/null 2>&1 || printf '%s ' "$4" # it runs the tests
}

# What libhwt-store is built with.  The core needs none of it.
store_packages_missing() {
	command -v pkg-config >/dev/null 2>&1 || printf '%s ' "$1"
	pkg-config --exists sqlite3 2>/dev/null || printf '%s ' "$2"
	pkg-config --exists libpq 2>/dev/null || printf '%s ' "$3"
	pkg-config --exists libmicrohttpd 2>/dev/null || printf '%s ' "$4" # hwt-jobs serve
	[ -e /usr/share/zoneinfo/Europe/Berlin ] || printf '%s ' tzdata
}

# What packaging/debian/control names.
deb_deps() {
	PATH=$PATH:/usr/bin:/usr/sbin
	command -v apt-get >/dev/null 2>&1 || { echo "deps: Debian packages are built on Debian" >&2; exit 1; }
	if ! command -v git >/dev/null 2>&1 || ! command -v dpkg-checkbuilddeps >/dev/null 2>&1; then
		install git dpkg-dev
	fi
	dpkg-checkbuilddeps packaging/debian/control 2>/dev/null && return
	echo "deps: installing what Debian packages are built with"
	as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get build-dep -qy ./packaging
}

if command -v apt-get >/dev/null 2>&1; then
	missing=$(packages_missing gcc libc6-dev libck-dev perl)
	missing_store=$(store_packages_missing pkg-config libsqlite3-dev libpq-dev libmicrohttpd-dev)
	install() { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy "$@"; }
elif command -v dnf >/dev/null 2>&1; then
	missing=$(packages_missing gcc glibc-devel ck-devel perl-Test-Harness)
	missing_store=$(store_packages_missing pkgconf-pkg-config sqlite-devel libpq-devel libmicrohttpd-devel)
	install() { as_root dnf install -qy "$@"; }
elif have_ck && command -v prove >/dev/null 2>&1; then
	missing='' missing_store=''
else
	echo "deps: no package manager that I know; please install a C compiler, Concurrency Kit's headers and prove (perl)" >&2
	exit 1
fi

if [ -z "$missing$missing_store" ]; then
	echo "deps: all there"
fi
if [ -n "$missing" ]; then
	echo "deps: installing $missing"
	# shellcheck disable=SC2086 # a list of words
	install $missing
	have_ck || { echo "deps: $CC still does not find ck_fifo.h" >&2; exit 1; }
fi
if [ -n "$missing_store" ]; then
	echo "deps: installing $missing_store"
	# shellcheck disable=SC2086
	(install $missing_store) || echo "deps: without $missing_store: make builds what it can of libhwt-store" >&2
fi
[ "${1:-}" != deb ] || deb_deps
