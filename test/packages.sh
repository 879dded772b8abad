#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Projects that build with CMake or Meson get the library: as installed, and as a part of their project.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
prefix=$root/opt

make -s install PREFIX="$prefix" >"$root/log" 2>&1 || { result packages_install "$(cat "$root/log")"; finish; }
mkdir "$root/user"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$root/user/program.c"
cat >"$root/user/program.cpp" <<'END'
#include <hwt.hpp>
#include <cstdio>
#include <future>
int main()
{
	hwt::timer timer(std::chrono::milliseconds(1));
	std::promise<void> said;
	if (timer.schedule(std::chrono::milliseconds(200), [&] { std::puts("200 ms later"); said.set_value(); }))
		return 1;
	said.get_future().wait();
}
END

runs() { # PROGRAM...
	for program in "$@"; do
		timeout 600 "$program" 2>&1 | grep -q '200 ms later' || echo "$program does not run"
	done
}

exported() { # LIBRARY
	nm -D --defined-only "$1" | sed -n 's/.* T //p' | sort
}

# NAME SETTINGS...: configures, builds and runs what $root/user/CMakeLists.txt says.
cmake_user() {
	name=$1
	shift
	rm -rf "$root/build"
	if CMAKE_PREFIX_PATH=$prefix cmake -S "$root/user" -B "$root/build" "$@" >"$root/log" 2>&1 &&
		cmake --build "$root/build" "-j${HWT_JOBS:-2}" >>"$root/log" 2>&1; then
		result "$name" "$(runs "$root"/build/program*)"
	else
		result "$name" "$(cat "$root/log")"
	fi
}

if command -v cmake >/dev/null 2>&1; then
	head='cmake_minimum_required(VERSION 3.13)
project(user C CXX)
set(CMAKE_CXX_STANDARD 17)'
	programs='add_executable(program_c program.c)
add_executable(program_cpp program.cpp)
target_link_libraries(program_c hwt::hwt)
target_link_libraries(program_cpp hwt::hwt)'
	printf '%s\n' "$head" 'find_package(hwt 0.2 REQUIRED)' "$programs" \
		'add_executable(program_static program.c)' 'target_link_libraries(program_static hwt::static)' \
		>"$root/user/CMakeLists.txt"
	cmake_user cmake_finds_the_package
	result cmake_links_the_archive "$(readelf -d "$root/build/program_static" 2>&1 | grep 'NEEDED.*libhwt'
		readelf -d "$root/build/program_c" 2>&1 | grep -q 'NEEDED.*libhwt\.so\.[0-9]*\]' || echo "no soname")"
	# Moved as a whole, as a DESTDIR and a sysroot are: CMake looks under that root alone.
	moved=$root/sysroot
	make -s install DESTDIR="$moved" PREFIX=/usr INCLUDEDIR=/usr/include/hwt >"$root/log" 2>&1 || cat "$root/log"
	sed -i 's/^find_package/set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)\n&/' "$root/user/CMakeLists.txt"
	cmake_user cmake_finds_the_package_in_a_sysroot -DCMAKE_FIND_ROOT_PATH="$moved"
	printf '%s\n' "$moved/usr/include/hwt" "$moved/usr/lib/libhwt" >"$root/wanted"
	result what_is_found_in_a_sysroot_lies_there "$(grep -rhoE '(/[^ "]*)?/usr/(include/hwt|lib/libhwt)\b' \
		"$root/build/CMakeFiles" "$root"/build/CMakeFiles/*/link.txt | sort -u | diff "$root/wanted" - 2>&1)"
	printf '%s\n' '0.3 0' '1 0' '0.1 0' '0.2.0 EXACT 1' '0.2 1' >"$root/wanted"
	result cmake_refuses_other_versions "$(for version in 0.3 1 0.1 '0.2.0 EXACT' 0.2; do
		printf '%s\n' "$head" "find_package(hwt $version QUIET)" 'message(STATUS "found: ${hwt_FOUND}")' \
			>"$root/user/CMakeLists.txt"
		rm -rf "$root/build"
		echo "$version $(CMAKE_PREFIX_PATH=$prefix cmake -S "$root/user" -B "$root/build" 2>&1 | sed -n 's/-- found: //p')"
	done | diff "$root/wanted" - 2>&1)"

	tree=$PWD
	printf '%s\n' "$head" "add_subdirectory($tree hwt EXCLUDE_FROM_ALL)" "$programs" >"$root/user/CMakeLists.txt"
	cmake_user cmake_builds_it_as_a_part
	printf '%s\n' "$head" 'set(BUILD_SHARED_LIBS ON)' 'include(FetchContent)' \
		"FetchContent_Declare(hwt SOURCE_DIR $tree)" 'FetchContent_MakeAvailable(hwt)' "$programs" \
		>"$root/user/CMakeLists.txt"
	sed -i 's/VERSION 3.13/VERSION 3.14/' "$root/user/CMakeLists.txt"
	cmake_user cmake_builds_it_shared
	result cmake_exports_the_same "$(exported build/libhwt.so >"$root/make"
		exported "$(find "$root/build" -name 'libhwt.so.*.*.*')" | diff "$root/make" - 2>&1)"

	# As Conan and vcpkg do, in a folder with a space, and moved to another place.
	printf '%s\n' "$head" 'find_package(hwt 0.2 REQUIRED)' "$programs" >"$root/user/CMakeLists.txt"
	makes=$prefix
	prefix=$root/moved
	mkdir "$root/a tree" && cp -R CMakeLists.txt include src "$root/a tree/" &&
		cmake -S "$root/a tree" -B "$root/own" -DBUILD_SHARED_LIBS=ON >"$root/log" 2>&1 && cmake --build "$root/own" "-j${HWT_JOBS:-2}" >>"$root/log" 2>&1 &&
		cmake --install "$root/own" --prefix "$root/first" >>"$root/log" 2>&1 && mv "$root/first" "$prefix"
	cmake_user cmake_installs_it
	prefix=$makes
else
	skip packages_cmake "not installed"
fi
result cmake_has_60_lines_at_most "$(awk 'END { if (NR >= 60) print NR }' CMakeLists.txt)"

if command -v meson >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1 && command -v pkg-config >/dev/null 2>&1; then
	cat >"$root/user/meson.build" <<'END'
project('user', 'c', 'cpp', default_options: ['c_std=c11', 'cpp_std=c++17', 'warning_level=3', 'werror=true'])
hwt = dependency('hwt', version: '>=0.2')
executable('program_c', 'program.c', dependencies: hwt)
executable('program_cpp', 'program.cpp', dependencies: hwt)
END
	meson_user() { # NAME SETTINGS...
		name=$1
		shift
		rm -rf "$root/meson"
		result "$name" "$(meson setup "$@" "$root/meson" "$root/user" >"$root/log" 2>&1 &&
			ninja "-j${HWT_JOBS:-2}" -C "$root/meson" >>"$root/log" 2>&1 || cat "$root/log"
			runs "$root/meson/program_c" "$root/meson/program_cpp")"
	}
	LD_LIBRARY_PATH=$prefix/lib PKG_CONFIG_PATH=$prefix/lib/pkgconfig meson_user meson_finds_it_through_pkg_config

	part=$root/user/subprojects/libhwt
	mkdir -p "$part" && cp -R meson.build include src "$part/"
	sed -i 's/^hwt = .*/hwt = dependency('\''hwt'\'', version: '\''>=0.2'\'', fallback: '\''libhwt'\'')/' "$root/user/meson.build"
	meson_user meson_builds_it_as_a_part
	result meson_exports_the_same "$(exported build/libhwt.so >"$root/make"
		exported "$(find "$root/meson" -name 'libhwt.so.*.*.*' -type f ! -name '*.symbols')" | diff "$root/make" - 2>&1)"
	meson_user meson_builds_it_static --default-library=static
	result meson_links_the_archive "$(readelf -d "$root/meson/program_c" 2>&1 | grep 'NEEDED.*libhwt')"
	result meson_installs_it "$(meson setup --prefix="$root/by meson" --libdir=lib "$root/own-meson" "$part" >"$root/log" 2>&1 &&
		meson install -C "$root/own-meson" >>"$root/log" 2>&1 || cat "$root/log"
		for file in include/hwt.h include/hwt.hpp lib/libhwt.so.0; do
			[ -e "$root/by meson/$file" ] || echo "no $file"
		done
		PKG_CONFIG_PATH="$root/by meson/lib/pkgconfig" pkg-config --exists 'hwt >= 0.2' || echo "pkg-config finds none")"
else
	skip packages_meson "needs meson, ninja and pkg-config"
fi
finish
