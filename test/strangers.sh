#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds that a stranger tries and nobody here does by himself: without optimisation, in a folder whose name has a space,
# with a compiler of two words, and Debian packages without what they are built with.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree="$work/a tree"
mkdir "$tree" && cp -R Makefile CHANGES.md LICENSE README.md bindings deps.sh doc examples include packaging src store test "$tree/" || exit 1

# ccache and distcc come before the compiler, as env does.
export CC="env $CC"
result strangers_build_without_optimisation "$(make -s -C "$tree" CFLAGS=-O0 STORE= BUILD=O0 >"$work/log" 2>&1 || tail -20 "$work/log")"
result strangers_build_with_a_space_and_a_compiler_of_two_words "$(make -s -C "$tree" WERROR=1 OPT=-O1 all build/examples/demo \
	>"$work/log" 2>&1 || tail -20 "$work/log")"
for script in abi man dlopen; do
	result "strangers_pass_${script}_sh" "$(cd "$tree" && BUILD=build "test/$script.sh" >"$work/log" 2>&1 || cat "$work/log")"
done

# All that is missing in one message, also what says so.
mkdir "$work/empty" && : >"$work/empty/status"
named() { # CHECK_DEB
	make -s deb CHECK_DEB="$1" >"$work/log" 2>&1 && echo "it goes on"
	for package in dpkg-dev debhelper dh-python libck-dev pybuild-plugin-pyproject python3-all tzdata build-dep; do
		grep -q "deb:.*$package\|^ $package" "$work/log" || echo "no word of $package"
	done
}
# apt-get as a program that notes what it was asked for.
mkdir "$work/bin"
printf '#!/bin/sh\necho "apt-get $*" >>"%s/asked"\n' "$work" >"$work/bin/apt-get"
printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
printf '#!/bin/sh\nexit $(cat "%s/lacks")\n' "$work" >"$work/bin/dpkg-checkbuilddeps"
chmod +x "$work"/bin/*
asks() { # LACKS
	echo "$1" >"$work/lacks" && : >"$work/asked"
	PATH="$work/bin:$PATH" make -s -n deps deb >"$work/log" 2>&1 || cat "$work/log"
	grep build-dep "$work/asked"
}
result strangers_get_what_deb_needs_by_make_deps_deb "$(asks 1 | grep -qx 'apt-get build-dep -qy ./packaging' || cat "$work/log" "$work/asked")"
result strangers_get_nothing_that_is_there "$(asks 0)"

result strangers_are_told_what_deb_needs "$(named no-such-program)"
if PATH="/usr/bin:$PATH" command -v dpkg-checkbuilddeps >/dev/null 2>&1; then
	result strangers_are_told_what_deb_lacks "$(named "dpkg-checkbuilddeps --admindir=$work/empty")"
else
	skip strangers_are_told_what_deb_lacks "no dpkg-dev"
fi
finish
