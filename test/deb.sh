#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Debian packages of the last commit: they build, lintian finds nothing in them, and in a clean root they are installed,
# used as packaging/debian/tests says, and removed without a trace.  The root needs root, debootstrap and a mirror;
# HWT_DEB_BUILT=1 takes those of build-deb/ that are there.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in dpkg-buildpackage dh; do
	command -v $tool >/dev/null 2>&1 || { skip deb "no $tool (apt-get install dpkg-dev debhelper)"; finish; }
done
if [ -z "${HWT_DEB_BUILT:-}" ]; then
	make -s deb >"$work/log" 2>&1 || { result deb_builds "$(tail -30 "$work/log")"; finish; }
	result deb_builds ""
fi
changes=$(ls build-deb/*.changes) || exit 1

# An uploader's address has to take the place of ours.
if command -v lintian >/dev/null 2>&1; then
	result deb_lintian_finds_nothing "$(lintian --allow-root -I --suppress-tags \
		bogus-mail-host,bogus-mail-host-in-debian-changelog "$changes" 2>&1)"
else
	skip deb_lintian_finds_nothing "no lintian"
fi

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
	skip deb_clean_root "needs root and debootstrap"
	finish
fi
clean=$work/root
# shellcheck disable=SC1091 # VERSION_CODENAME
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
debootstrap --variant=minbase --include=build-essential,cmake,pkg-config,libpq-dev,libsqlite3-dev "$suite" "$clean" \
	>"$work/log" 2>&1 || { result deb_clean_root "$(tail -5 "$work/log")"; finish; }
within() { # COMMAND...
	chroot "$clean" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
# debootstrap configures no Python packages.
within apt-get install -qy --no-install-recommends python3-cffi >"$work/log" 2>&1 ||
	{ result deb_clean_root "$(tail -5 "$work/log")"; finish; }
files() { # all but what any package changes
	within find / -xdev ! -path '/proc/*' ! -path '/var/*' ! -path '/tmp/*' ! -path '/etc/ld.so.cache' ! -path '/debs*' | sort
}
mkdir "$clean/debs" && cp build-deb/*.deb packaging/debian/tests/consumer "$clean/debs/" && rm -f "$clean"/debs/*dbgsym* || exit 1
files >"$work/before"
result deb_installs "$(within sh -c 'dpkg -i /debs/*.deb && dpkg --audit' >"$work/log" 2>&1 || cat "$work/log")"
result deb_consumer_compiles_and_runs "$(within timeout 300 /debs/consumer >"$work/log" 2>&1 || cat "$work/log")"
result deb_removes "$(within sh -c 'dpkg --purge libhwt-dev libhwt-doc libhwt-store-dev libhwt-store0 libhwt0 hwt-jobs python3-hwt-store' >"$work/log" 2>&1 ||
	cat "$work/log")"
result deb_leaves_nothing "$(files | diff "$work/before" - 2>&1)"
finish
