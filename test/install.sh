#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What `make install` leaves is enough for a user: the README's program builds against it, shared and static, in C and C++.
set -u
cd "$(dirname "$0")/.." || exit 1
CC=${CC:-cc}
CXX=${CXX:-c++}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
status=0

try() { # NAME COMMAND...
	name=$1
	shift
	if "$@" >"$root/log" 2>&1 && LD_LIBRARY_PATH="$root/usr/lib" timeout 60 "$root/program" >"$root/log" 2>&1 &&
		grep -q '200 ms later' "$root/log"; then
		echo "ok install_$name"
	else
		cat "$root/log"
		echo "FAIL install_$name"
		status=1
	fi
}

make -s install DESTDIR="$root" PREFIX=/usr || { echo "FAIL install"; exit 1; }
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

try shared_c "$CC" -std=c11 -I"$root/usr/include" "$root/program.c" -L"$root/usr/lib" -lhwt -pthread -o "$root/program"
# By its name, not by number: the link that a program carries is the soname.
if readelf -d "$root/program" 2>/dev/null | grep -q 'NEEDED.*libhwt\.so\.[0-9]*\]'; then
	echo "ok install_soname"
else
	echo "FAIL install_soname"
	status=1
fi
try static_c "$CC" -std=c11 -I"$root/usr/include" "$root/program.c" "$root/usr/lib/libhwt.a" -pthread -o "$root/program"
if command -v "$CXX" >/dev/null 2>&1; then
	try shared_cxx "$CXX" -I"$root/usr/include" "$root/program.cc" -L"$root/usr/lib" -lhwt -pthread -o "$root/program"
else
	echo "skip install_shared_cxx: no C++ compiler"
fi
exit $status
