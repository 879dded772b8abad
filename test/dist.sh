#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The archive of `make dist`, of the last commit, in a new root that has make and git: there it builds, passes its tests,
# installs, serves a program and is removed again.  Then a clone there becomes Debian packages.  Prints the seconds of each step.
# Needs root, debootstrap and a mirror.  HWT_DIST_STEPS: some of the steps; HWT_DIST_ROOT: a root that stays.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
	skip dist "needs root and debootstrap"
	finish
fi
# Mounts of this script are its own, and end with it.
[ -n "${HWT_DIST_ALONE:-}" ] || exec env HWT_DIST_ALONE=1 unshare -m --propagation private "$0" "$@"
work=$(mktemp -d)
root=${HWT_DIST_ROOT:-$work/root}
clean_up() {
	umount "$root/proc" 2>/dev/null
	rm -rf --one-file-system "$work"
}
trap clean_up EXIT

within() { # COMMAND...
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
}
step() { # NAME COMMAND...: in the root
	name=$1 began=$(date +%s)
	shift
	within "$@" >"$work/log" 2>&1
	code=$?
	echo "# $name: $(($(date +%s) - began)) s"
	sed -n '/^[0-9]* passed, [0-9]* failed$/s/^/# /p' "$work/log"
	result "dist_$name" "$([ $code -eq 0 ] || { echo "status $code"; tail -40 "$work/log"; })"
}
files() { within find /usr /etc /opt -xdev ! -name 'ld.so.cache' | sort; }

if [ ! -e "$root/usr/bin/make" ]; then
	began=$(date +%s)
	# shellcheck disable=SC1091 # VERSION_CODENAME
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	debootstrap --variant=minbase --include=make,git "$suite" "$root" >"$work/log" 2>&1 ||
		{ result dist_root "$(tail -5 "$work/log")"; finish; }
	echo "# root: $(($(date +%s) - began)) s"
fi
mount -t proc proc "$root/proc" || { skip dist "no /proc in the root"; finish; }

make -s dist >"$work/log" 2>&1 || { result dist_is_packed "$(cat "$work/log")"; finish; }
archive=$(cat "$work/log")
mv "$archive" "$root/" && git clone -q --bare --no-hardlinks . "$root/clone.git" || exit 1
tree=/${archive%.tar.gz}
program="awk '/^\`\`\`c\$/ { on = 1; next } /^\`\`\`\$/ { if (on) exit } on'"

step unpacks tar -xf "/$archive" -C /
step builds sh -c "cd $tree && make deps all"
step passes_its_tests make -C "$tree" check
files >"$work/before"
step installs sh -c "make -C $tree install && ldconfig"
step serves_a_program sh -c "cd /tmp && $program /usr/local/share/doc/libhwt/README.md >core.c &&
	cc -o core core.c \$(pkg-config --cflags --libs hwt) && ./core | grep '200 ms later'"
step serves_a_program_of_the_store sh -c "cd /tmp && $program /usr/local/share/doc/libhwt/store.md >store.c &&
	cc -o store store.c \$(pkg-config --cflags --libs hwt-store) && ./store | grep 'your trial ends tomorrow'"
step uninstalls make -C "$tree" uninstall
result dist_leaves_nothing "$(files | diff "$work/before" - | grep -v '^[0-9]' | grep -vE '/(local/(include|lib|bin|share)/?)')"
step becomes_debian_packages sh -c "git clone -q /clone.git /clone && cd /clone && make deps deb && ls build-deb/*.deb"
finish
