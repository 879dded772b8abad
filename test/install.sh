#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What `make install` leaves is enough for a user: the README's program builds against it, shared and static, in C and C++.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
CXX=${CXX:-c++}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

try() { # NAME COMMAND...
	name=$1
	shift
	if "$@" >"$root/log" 2>&1 && LD_LIBRARY_PATH="$root/usr/lib" timeout 600 "$root/program" >"$root/log" 2>&1 &&
		grep -q '200 ms later' "$root/log"; then
		result "install_$name" ""
	else
		result "install_$name" "$(cat "$root/log")"
	fi
}

make -s install DESTDIR="$root" PREFIX=/usr || { result install "it failed"; finish; }
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$root/program.c"
cat >"$root/program.cc" <<'END'
#include <hwt.h>
#include <atomic>
#include <cstdio>
static std::atomic<bool> done;
static void say(hwt_timeout, void *text) { std::printf("%s\n", static_cast<char *>(text)); done = true; }
int main()
{
	static char text[] = "200 ms later";
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer;
	if (hwt_timer_create(&timer, &config) || hwt_new_timeout(timer, say, text, HWT_MS(200), NULL))
		return 1;
	while (!done) { }
	return hwt_timer_destroy(timer);
}
END

# shellcheck disable=SC2086 # a compiler may be several words
try shared_c $CC -std=c11 -I"$root/usr/include" "$root/program.c" -L"$root/usr/lib" -lhwt -pthread -o "$root/program"
# By its name, not by number: the link that a program carries is the soname.
result install_soname "$(readelf -d "$root/program" 2>&1 | grep -q 'NEEDED.*libhwt\.so\.[0-9]*\]' || echo "not by its soname")"
# shellcheck disable=SC2086 # a compiler may be several words
try static_c $CC -std=c11 -I"$root/usr/include" "$root/program.c" "$root/usr/lib/libhwt.a" -pthread -o "$root/program"
if command -v "${CXX%% *}" >/dev/null 2>&1; then
	# shellcheck disable=SC2086
	try shared_cxx $CXX -I"$root/usr/include" "$root/program.cc" -L"$root/usr/lib" -lhwt -pthread -o "$root/program"
else
	skip install_shared_cxx "no C++ compiler"
fi

# As pkg-config says, from a prefix of its own; and what CMake makes of that.
prefix=$root/opt
make -s install PREFIX="$prefix" || { result install_prefix "it failed"; finish; }
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@" hwt; }
if command -v pkg-config >/dev/null 2>&1; then
	# shellcheck disable=SC2046,SC2086 # words
	try pkg_config_shared $CC -std=c11 "$root/program.c" $(pc --cflags --libs) -Wl,-rpath,"$prefix/lib" -o "$root/program"
	# shellcheck disable=SC2046,SC2086
	try pkg_config_static $CC -std=c11 $(pc --cflags) "$root/program.c" \
		$(pc --static --libs | sed "s#-lhwt#$prefix/lib/libhwt.a#") -o "$root/program"
	version=$(pc --modversion)
	result install_pkg_config_version "$(grep -q "^## $version " CHANGES.md || echo "$version is not in CHANGES.md")"
else
	skip install_pkg_config "not installed"
fi
if command -v cmake >/dev/null 2>&1 && command -v pkg-config >/dev/null 2>&1; then
	mkdir "$root/cmake"
	cp "$root/program.c" "$root/cmake/"
	cat >"$root/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(program C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWT REQUIRED IMPORTED_TARGET hwt)
add_executable(program program.c)
target_link_libraries(program PkgConfig::HWT)
END
	cmake_build() {
		PKG_CONFIG_PATH=$prefix/lib/pkgconfig cmake -S "$root/cmake" -B "$root/cmake/build" &&
			cmake --build "$root/cmake/build" && cp "$root/cmake/build/program" "$root/program"
	}
	try cmake cmake_build
else
	skip install_cmake "not installed"
fi

installed() { find "$prefix" -type f -o -type l | sed "s#$prefix/##" | sort; }
result install_files "$(for file in include/hwt.h include/hwt.hpp lib/libhwt.a lib/libhwt.so lib/pkgconfig/hwt.pc share/man/man3/hwt.3 share/man/man3/hwt_cancel.3 \
	share/gdb/hwt-gdb.py share/doc/libhwt/README.md share/doc/libhwt/examples/epoll.c; do
	installed | grep -qx "$file" || echo "no $file"; done)"
make -s uninstall PREFIX="$prefix"
result uninstall_leaves_nothing "$(installed)"

# Twice from different folders: the same bytes.
for copy in one two; do
	mkdir -p "$root/$copy/deeper"
	cp -R Makefile include src "$root/$copy/deeper/"
	make -s -C "$root/$copy/deeper" BUILD=b >"$root/log" 2>&1 || cat "$root/log"
	mv "$root/$copy/deeper/b" "$root/$copy-b"
done
result builds_are_reproducible "$(cmp "$root/one-b/libhwt.a" "$root/two-b/libhwt.a" 2>&1
	cmp "$root"/one-b/libhwt.so.*.*.* "$root"/two-b/libhwt.so.*.*.* 2>&1)"

# A release builds without git.
if git rev-parse HEAD >/dev/null 2>&1; then
	git archive --prefix=release/ HEAD | tar -x -C "$root"
	result a_release_builds "$(make -s -C "$root/release" >"$root/log" 2>&1 && [ -e "$root/release/build/libhwt.a" ] ||
		cat "$root/log")"
fi
finish
