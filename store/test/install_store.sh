#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What `make install` leaves of libhwt-store is enough for a user, with pkg-config and with CMake; and without SQLite and
# libpq the rest of the project is built as ever, and says what was left out.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/result.sh
CC=${CC:-cc}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Nothing of the store is found: the core is what counts.
mkdir "$root/plain"
cp -R Makefile ./*.md LICENSE include share src store examples test doc bench "$root/plain/"
plain() {
	make -C "$root/plain" PKG_CONFIG=false "$@" >"$root/log" 2>&1
}
result without_packages_the_core_is_built "$(plain || { echo "make: exit $?"; cat "$root/log"; }
	grep -q 'libhwt-store.*left out' "$root/log" || { echo "make does not say that the store was left out:"; cat "$root/log"; }
	[ -e "$root/plain/build/libhwt.so" ] || echo "no libhwt.so"
	[ ! -e "$root/plain/build/libhwt-store.a" ] || echo "there is a libhwt-store.a")"
result without_packages_demo_and_check_are_complete "$(plain build/examples/demo || cat "$root/log"
	plain -n demo || { echo "make demo: exit $?"; cat "$root/log"; }
	plain -n check || { echo "make check: exit $?"; cat "$root/log"; }
	grep -q 'test/.*store[a-z_]*\.c\|store/bench' "$root/log" && { echo "it would build the store's tests:"; cat "$root/log"; })"
result without_packages_demo_store_says_why "$(plain demo-store && echo "it passes"
	grep -q 'demo-store: .*make deps' "$root/log" || cat "$root/log")"
result without_packages_install_is_complete "$(plain install DESTDIR="$root/core" PREFIX=/usr || cat "$root/log"
	[ -e "$root/core/usr/include/hwt.h" ] || echo "no hwt.h"
	find "$root/core" -name '*store*' ! -path '*/doc/*')"

if [ ! -e "${BUILD:-build}/libhwt-store.a" ]; then
	skip install_store "it was not built"
	finish
fi

prefix=$root/opt
make -s install PREFIX="$prefix" >"$root/log" 2>&1 || { result install_store "$(cat "$root/log")"; finish; }
installed() { find "$prefix" -type f -o -type l | sed "s#$prefix/##" | sort; }
result install_store_files "$(for file in include/hwt_store.h include/hwt_store.hpp lib/libhwt-store.a lib/libhwt-store.so \
	bin/hwt-jobs share/man/man1/hwt-jobs.1 lib/pkgconfig/hwt-store.pc share/man/man3/hwt_store.3 share/doc/libhwt/store.md share/doc/libhwt/examples/jobs.c \
	lib/cmake/hwt-store/hwt-store-config.cmake lib/cmake/hwt-store/hwt-store-config-version.cmake; do
	installed | grep -qx "$file" || echo "no $file"; done)"

# The first program of store/doc/store.md.
awk '/^```c$/ { on = 1; next } /^```$/ { if (on) exit } on' store/doc/store.md >"$root/program.c"
try() { # NAME COMMAND...
	name=$1
	shift
	rm -f "$root/example.db"* "$root/program"
	if "$@" >"$root/log" 2>&1 && (cd "$root" && timeout 600 ./program) >"$root/log" 2>&1 &&
		grep -q 'your trial ends tomorrow' "$root/log"; then
		result "install_store_$name" ""
	else
		result "install_store_$name" "$(echo "$@"; cat "$root/log")"
	fi
}
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"; }
# shellcheck disable=SC2046,SC2086 # words
try pkg_config_shared $CC -std=c11 "$root/program.c" $(pc --cflags --libs hwt-store) -Wl,-rpath,"$prefix/lib" \
	-o "$root/program"
result install_store_needs_only_what_it_uses "$(readelf -d "$root/program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
	grep -vE '^(libc|libhwt|libhwt-store)\.so\.[0-9]+$')"
# shellcheck disable=SC2046,SC2086
try pkg_config_static $CC -std=c11 $(pc --cflags hwt-store) "$root/program.c" \
	$(pc --static --libs hwt-store | sed "s#-lhwt-store#$prefix/lib/libhwt-store.a#; s#-lhwt\b#$prefix/lib/libhwt.a#") \
	-o "$root/program"
result install_store_version "$([ "$(pc --modversion hwt-store)" = "$(pc --modversion hwt)" ] || echo "versions differ")"
if command -v cmake >/dev/null 2>&1; then
	mkdir "$root/cmake"
	cp "$root/program.c" "$root/cmake/"
	cmake_build() { # TARGET VERSION SETTING...
		printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(program C)' "find_package(hwt-store $2 REQUIRED)" \
			'add_executable(program program.c)' "target_link_libraries(program $1)" >"$root/cmake/CMakeLists.txt"
		shift 2
		rm -rf "$root/cmake/build"
		cmake -S "$root/cmake" -B "$root/cmake/build" "$@" && cmake --build "$root/cmake/build" &&
			cp "$root/cmake/build/program" "$root/program"
	}
	try cmake cmake_build hwt::store 0.2 -DCMAKE_PREFIX_PATH="$prefix"
	try cmake_static cmake_build hwt::store_static '' -DCMAKE_PREFIX_PATH="$prefix"
	result install_store_cmake_links_the_archive "$(readelf -d "$root/program" | grep 'NEEDED.*libhwt')"
	for version in 0.3 0.1 1; do
		result "install_store_cmake_refuses_$version" "$(cmake_build hwt::store $version -DCMAKE_PREFIX_PATH="$prefix" \
			>"$root/log" 2>&1 && echo "it takes ours"; grep -q 'compatible with requested version' "$root/log" || cat "$root/log")"
	done
	make -s install DESTDIR="$root/sysroot" PREFIX=/usr >"$root/log" 2>&1 || result install_store_into_a_destdir "$(cat "$root/log")"
	try cmake_in_a_sysroot cmake_build hwt::store 0.2 -DCMAKE_FIND_ROOT_PATH="$root/sysroot" -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY
	mv "$root/sysroot/usr" "$root/elsewhere"
	try cmake_moved cmake_build hwt::store '' -Dhwt-store_DIR="$root/elsewhere/lib/cmake/hwt-store"
else
	skip install_store_cmake "not installed"
fi
make -s uninstall PREFIX="$prefix" >"$root/log" 2>&1
result uninstall_store_leaves_nothing "$(installed; find "$prefix" -name cmake)"

for copy in one two; do
	mkdir -p "$root/$copy/deeper"
	cp -R Makefile include src store doc "$root/$copy/deeper/"
	make -s -C "$root/$copy/deeper" BUILD=b >"$root/log" 2>&1 || cat "$root/log"
	mv "$root/$copy/deeper/b" "$root/$copy-b"
done
result store_builds_are_reproducible "$(cmp "$root/one-b/libhwt-store.a" "$root/two-b/libhwt-store.a" 2>&1
	cmp "$root"/one-b/libhwt-store.so.*.*.* "$root"/two-b/libhwt-store.so.*.*.* 2>&1)"
finish
