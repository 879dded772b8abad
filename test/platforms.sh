#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds and tests for what this machine can run beside its own: musl; 32 bits (i386); no more than POSIX (HWT_PORTABLE);
# and other processors under qemu, which shows sizes, byte order and alignment, but no order of memory accesses other than
# its host's.  A tenth of the tests' length and hardly optimised, but a build of its own each.  test/aarch64.sh is for
# AArch64.  HWT_PLATFORMS names some of them.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Not test_environment: what it is about, affinity among it, is glibc's.  Nor what computes with __int128:
# unit_sleeper, unit_oracle.
tests=${HWT_PLATFORM_TESTS:-unit_wide unit_counter unit_timer unit_idle unit_slab unit_bucket unit_wheel
	unit_levels unit_lane unit_script test_api test_api_config test_api_life test_stats test_loop test_clocks
	test_stress_all}

wanted() { # NAME
	case " ${HWT_PLATFORMS:-$1} " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

platform() { # NAME RUN MAKE-ARGUMENT...: RUN is a command that runs its programs
	name=$1
	build=build-$name
	run=$2
	shift 2
	programs=$(for test in $tests; do echo "$build/test/$test"; done)
	# shellcheck disable=SC2086 # a list of words
	if make -s "-j${HWT_JOBS:-$(nproc)}" "$@" BUILD="$build" OPT='-O1 -g' STORE= "$build/libhwt.a" $programs >"$work/log" 2>&1; then
		result "${name}_builds" ""
	else
		result "${name}_builds" "$(tail -20 "$work/log")"
		return
	fi
	for program in $programs; do
		# shellcheck disable=SC2086
		result "${name}_$(basename "$program")" \
			"$(HWT_SCALE=10 timeout 1800 $run "$program" >"$work/log" 2>&1 || cat "$work/log")"
	done
}

# Concurrency Kit's headers alone, as other targets have headers of their own for all else.  ck_md.h is this machine's, and
# says of the order of stores what is wrong for most of them: src/lane/queue.h does not depend on it.
ck=${HWT_CK:-/usr/include}
[ -e "$ck/ck_fifo.h" ] || { skip platforms "no $ck/ck_fifo.h"; finish; }
mkdir "$work/ck" && cp -r "$ck"/ck_*.h "$ck/gcc" "$ck/spinlock" "$work/ck/" || exit 1
other="CPPFLAGS=-isystem $work/ck"

if ! wanted musl; then
	:
elif ! command -v musl-gcc >/dev/null 2>&1; then
	skip musl "no musl-gcc (apt-get install musl-tools)"
else
	platform musl "" WERROR=1 CC=musl-gcc "$other"
fi

i386=/usr/i686-linux-gnu/lib
if ! wanted i386; then
	:
elif ! command -v i686-linux-gnu-gcc >/dev/null 2>&1 || [ ! -e "$i386/ld-linux.so.2" ]; then
	skip i386 "no compiler (apt-get install gcc-i686-linux-gnu libc6-dev-i386-cross)"
else
	here= # a kernel may run no programs of 32 bits
	"$i386/ld-linux.so.2" --version >/dev/null 2>&1 || here=qemu-i386
	if [ -n "$here" ] && ! command -v $here >/dev/null 2>&1; then
		skip i386 "this machine does not run programs for i386, nor is qemu-i386 there (apt-get install qemu-user)"
	else
		platform i386 "$here" WERROR=1 CC=i686-linux-gnu-gcc "$other" \
			LDFLAGS="-Wl,--dynamic-linker=$i386/ld-linux.so.2 -Wl,-rpath,$i386"
	fi
fi

! wanted portable || platform portable "" WERROR=1 CPPFLAGS=-DHWT_PORTABLE

emulated() { # NAME QEMU TARGET PACKAGES [CPU]
	wanted "$1" || return 0
	if ! command -v "$3-gcc" >/dev/null 2>&1 || [ ! -e "/usr/$3/include/stdio.h" ]; then
		skip "$1" "no compiler (apt-get install $4)"
	elif ! command -v "qemu-$2" >/dev/null 2>&1; then
		skip "$1" "no qemu-$2 (apt-get install qemu-user)"
	else
		platform "$1" "qemu-$2 ${5:+-cpu $5} -L /usr/$3" WERROR=1 CC="$3-gcc" "$other"
	fi
}

emulated s390x s390x s390x-linux-gnu "gcc-s390x-linux-gnu libc6-dev-s390x-cross"
emulated armhf arm arm-linux-gnueabihf "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"
emulated riscv64 riscv64 riscv64-linux-gnu "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"
emulated ppc64 ppc64 powerpc64-linux-gnu "gcc-powerpc64-linux-gnu libc6-dev-ppc64-cross"
emulated ppc64el ppc64le powerpc64le-linux-gnu "gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross" power9
emulated mips64el mips64el mips64el-linux-gnuabi64 "gcc-mips64el-linux-gnuabi64 libc6-dev-mips64el-cross"
finish
