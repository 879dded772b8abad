#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs what the build and the tests need and this machine lacks, with the system's package manager.  Does nothing when all is there.
set -eu
CC=${CC:-cc}

have_ck() {
	command -v "$CC" >/dev/null 2>&1 && echo '#include <ck_fifo.h>' | "$CC" -E - >/dev/null 2>&1
}

have_libc() {
	command -v "$CC" >/dev/null 2>&1 && echo '#include <pthread.h>' | "$CC" -E - >/dev/null 2>&1
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
	command -v "$CC" >/dev/null 2>&1 || printf '%s ' "$1"
	have_libc || printf '%s ' "$2"
	have_ck || printf '%s ' "$3"
	command -v prove >/dev/null 2>&1 || printf '%s ' "$4" # it runs the tests
}

if command -v apt-get >/dev/null 2>&1; then
	missing=$(packages_missing gcc libc6-dev libck-dev perl)
	install() { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy "$@"; }
elif command -v dnf >/dev/null 2>&1; then
	missing=$(packages_missing gcc glibc-devel ck-devel perl-Test-Harness)
	install() { as_root dnf install -qy "$@"; }
elif have_ck && command -v prove >/dev/null 2>&1; then
	missing=
else
	echo "deps: no package manager that I know; please install a C compiler, Concurrency Kit's headers and prove (perl)" >&2
	exit 1
fi

if [ -z "$missing" ]; then
	echo "deps: all there"
	exit 0
fi
echo "deps: installing $missing"
# shellcheck disable=SC2086 # a list of words
install $missing
have_ck || { echo "deps: $CC still does not find ck_fifo.h" >&2; exit 1; }
