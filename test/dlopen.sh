#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The library inside what is loaded at run time, a plugin or a binding of another language: linked with libhwt.so, and
# with libhwt.a in the plugin itself, which has 16 KB of thread-local memory of its own.  Both with and without room in
# the static part of thread-local memory, of which libc keeps some hundred bytes for what is loaded later.  The same
# with musl, which keeps none.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
BUILD=${BUILD:-build}
CC=${CC:-cc}
[ -z "${SAN:-}" ] || { skip dlopen "the program would need the sanitizer, too"; finish; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags='-std=gnu11 -Wall -Iinclude -pthread'

# Only functions that call no descriptor may use vector registers: see the Makefile.
vectors_beside_descriptors() {
	objdump -dr --no-show-raw-insn "$BUILD/libhwt.a" | awk '
		/^[0-9a-f]+ <.*>:$/ { function_name = $2; calls[function_name] = vectors[function_name] = 0 }
		/TLSDESC_CALL/ { calls[function_name]++ }
		/%[xyz]mm/ { vectors[function_name]++ }
		END { for (f in calls) if (calls[f] && vectors[f]) print f " uses vector registers" }'
}

# The program that loads, and what fills up static thread-local memory.
# shellcheck disable=SC2086 # flags
build_host() { # FOLDER COMPILER
	mkdir -p "$1" && $2 $flags test/dlopen/host.c -ldl -o "$1/host" &&
	for bytes in 2048 1024 512 256 128 64 32 16 8; do
		$2 $flags -DBYTES=$bytes -fPIC -shared test/dlopen/filler.c -o "$1/filler_$bytes.so" &&
			cp "$1/filler_$bytes.so" "$1/filler_${bytes}_2.so" || return 1
	done
}

load() { # NAME HOST PLUGIN [FILLER...]
	what=$1
	shift
	timeout 600 "$@" >"$work/log" 2>&1 || echo "ended with status $?" >>"$work/log"
	result "$what" "$(cat "$work/log")"
}

# shellcheck disable=SC2086 # flags
plugin() { # NAME FOLDER COMPILER LIBRARY...
	name=$1 folder=$2 compiler=$3
	shift 3
	$compiler $flags -fPIC -fvisibility=hidden -shared test/dlopen/plugin.c "$@" -Wl,--exclude-libs,ALL \
		-o "$folder/plugin.so" >"$work/log" 2>&1
	result "${name}_links" "$(cat "$work/log")"
	[ -s "$work/log" ] && return
	load "${name}_loads" "$folder/host" "$folder/plugin.so"
	# With musl there is none anyway.
	case $name in musl_*) return ;; esac
	load "${name}_loads_without_static_tls" "$folder/host" "$folder/plugin.so" "$folder"/filler_*.so
}

both() { # PREFIX FOLDER COMPILER LIBRARIES
	if build_host "$2" "$3" >"$work/log" 2>&1; then
		plugin "$1a_plugin_with_libhwt_so" "$2" "$3" -L"$4" -lhwt -Wl,-rpath,"$4"
		plugin "$1a_plugin_with_libhwt_a" "$2" "$3" "$4/libhwt.a"
	else
		result "$1plugins_build" "$(cat "$work/log")"
	fi
}

if command -v objdump >/dev/null 2>&1; then
	result descriptors_and_vectors_are_kept_apart "$(vectors_beside_descriptors)"
else
	skip descriptors_and_vectors_are_kept_apart "no objdump"
fi
both '' "$work/libc" "$CC" "$(cd "$BUILD" && pwd)"

# musl-gcc looks for headers in musl's own folder only.
if command -v musl-gcc >/dev/null 2>&1 && [ -e /usr/include/ck_fifo.h ]; then
	mkdir "$work/headers" && ln -s /usr/include/ck_*.h /usr/include/gcc /usr/include/spinlock /usr/include/linux \
		/usr/include/asm-generic "/usr/include/$(cc -print-multiarch)/asm" "$work/headers"
	if make -s STORE= BUILD="$work/musl-build" CC=musl-gcc OPT=-O1 CPPFLAGS="-isystem $work/headers" >"$work/log" 2>&1; then
		both musl_ "$work/musl" musl-gcc "$work/musl-build"
	else
		result musl_builds "$(cat "$work/log")"
	fi
else
	skip musl "no musl-gcc with Concurrency Kit's headers"
fi
finish
