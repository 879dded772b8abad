#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The public header compiles alone in every language it claims; the shared library exports what it declares, and nothing else.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. test/result.sh

cat >"$work/use.c" <<'END'
#include <hwt.h>
#include <hwt.h>
hwt_config make(void);
hwt_config make(void)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timeout none = HWT_TIMEOUT_NONE;
	none = HWT_TIMEOUT_NONE;
	config.max_pending_timeouts = none.entry == NULL ? HWT_MS(3) : 0;
	return config;
}
END

cat >"$work/use_store.c" <<'END'
#include <hwt_store.h>
#include <hwt_store.h>
hwt_store_config make_store(hwt_store_kind *kind, hwt_store_spec *spec, hwt_store_info *info, hwt_store_stats *stats);
hwt_store_config make_store(hwt_store_kind *kind, hwt_store_spec *spec, hwt_store_info *info, hwt_store_stats *stats)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	hwt_store_kind a = HWT_STORE_KIND_INIT;
	hwt_store_spec b = HWT_STORE_SPEC_INIT;
	hwt_store_info c = HWT_STORE_INFO_INIT;
	hwt_store_stats d = HWT_STORE_STATS_INIT;
	a.mode = HWT_STORE_TRANSACTION;
	b.flags = HWT_STORE_ABSOLUTE | HWT_STORE_REPLACE;
	c.state = HWT_STORE_FAILED;
	d.size = HWT_STORE_DATA_MAX;
	*kind = a;
	*spec = b;
	*info = c;
	*stats = d;
	return config;
}
END

compile() { # COMPILER STANDARD FLAGS
	compiler=$1
	command -v "$compiler" >/dev/null 2>&1 || { skip "header_with_$compiler" "not installed"; return; }
	shift
	for use in use use_store; do
		result "header_with_${compiler}_$1_in_$use" "$("$compiler" "$@" -pedantic -Wall -Wextra -Werror -Iinclude -Istore/include \
			-fsyntax-only "$work/$use.c" 2>&1)"
	done
}

for cc in gcc clang; do
	compile $cc -std=c11 -Wstrict-prototypes -Wmissing-prototypes
	compile $cc -std=c2x
done
for cxx in g++ clang++; do
	compile $cxx -std=c++98 -Wno-long-long -x c++
	compile $cxx -std=c++20 -x c++
done

# hwt.hpp in the standards that it has something for, alone, twice, and with a user's own warnings.
cat >"$work/use.cpp" <<'END'
#include <hwt.hpp>
#include <hwt.hpp>
std::error_code use(hwt::timer &timer, hwt::timeout &out, int *number);
std::error_code use(hwt::timer &timer, hwt::timeout &out, int *number)
{
	return timer.schedule(std::chrono::seconds(1), [number] { ++*number; }, out);
}
void function();
void function() {}
std::error_code use_functions(hwt::timer &timer, hwt::timeout &out);
std::error_code use_functions(hwt::timer &timer, hwt::timeout &out)
{
	auto error = timer.schedule(std::chrono::seconds(1), function, out);
	return error ? error : timer.schedule(std::chrono::seconds(1), &function, out);
}
int use_macros(hwt_timer *timer);
int use_macros(hwt_timer *timer)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	timeout = HWT_TIMEOUT_NONE;
	spec.when_ns = config.tick_duration_ns + HWT_US(1) + HWT_MS(2u) + HWT_S(3);
	return hwt_new_timeout_ex(timer, &spec, &timeout);
}
#if __cplusplus > 201703L && !defined(HWT_COROUTINES)
#error "no coroutines"
#endif
END
cat >"$work/use_store.cpp" <<'END'
#include <hwt_store.hpp>
#include <hwt_store.hpp>
std::error_code use(hwt::store &store, int *number);
std::error_code use(hwt::store &store, int *number)
{
	std::error_code error = store.add(hwt::kind("a"), [number](const hwt_store_run &run) -> hwt::answer {
		return run.attempt > 1 ? hwt::answer(++*number) : hwt::again(run, std::chrono::seconds(90));
	});
	if (!error)
		error = store.put({ hwt::spec("a").in(std::chrono::hours(1)), hwt::spec("a").every(std::chrono::minutes(1)) });
	return error ? error : store.cancel({ "a", "key", "group" });
}
END
for cxx in g++ clang++; do
	if ! command -v $cxx >/dev/null 2>&1; then
		skip "hpp_with_$cxx" "not installed"
		continue
	fi
	for standard in 17 20 2b; do
		result "hpp_with_${cxx}_in_c++$standard" "$($cxx -std=c++$standard -pedantic -Wall -Wextra -Werror -Wshadow \
			-Wconversion -Wold-style-cast -Iinclude -fsyntax-only "$work/use.cpp" 2>&1)"
	done
	for standard in 17 20 2b; do
		result "hpp_of_the_store_with_${cxx}_in_c++$standard" "$($cxx -std=c++$standard -pedantic -Wall -Wextra -Werror -Wshadow \
			-Wconversion -Wold-style-cast -Iinclude -Istore/include -fsyntax-only "$work/use_store.cpp" 2>&1)"
	done
	result "hpp_with_${cxx}_refuses_older_standards" "$($cxx -std=c++14 -Iinclude -fsyntax-only "$work/use.cpp" 2>&1 |
		grep -q 'hwt.hpp needs C++17' || echo "it says something else")"
done

result header_includes_only_what_it_may "$(sed -n 's/^#include //p' include/hwt.h |
	grep -vE '^<(pthread|stdbool|stddef|stdint)\.h>$'; grep -nE '(^|[^a-z])ck_' include/hwt.h)"

result header_of_the_store_includes_only_what_it_may "$(sed -n 's/^#include //p' store/include/hwt_store.h |
	grep -vE '^<(hwt|stdbool|stddef|stdint)\.h>$')"

# The comment before each declaration says what it returns and what it costs.
result header_says_returns_and_cost_of_each_function "$(awk '
	/^\/\*/ { comment = "" }
	/^(\/| )\*/ { comment = comment $0 "\n"; next }
	/^HWT_API / {
		name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); n++
		if (comment !~ /\n \* Returns/ && $2 != "void") print name ": no Returns"
		if (comment !~ /\n \* Cost/) print name ": no Cost"
	}
	!/^HWT_API / && NF == 0 { comment = "" }
	END { if (n == 0) print "no functions" }' include/hwt.h)"

# Threads: the table has a row for each function, by its name or by a word that ends in *.
sed -n '/^ \* What may run when$/,/^ \* Errors$/p' include/hwt.h | grep -oE 'hwt_[a-z_]+\*?' | sort -u >"$work/rows"
result header_says_when_each_function_may_run "$([ -s "$work/rows" ] || echo "no table"
	sed -n 's/^HWT_API .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' include/hwt.h | while read -r name; do
		while read -r row; do
			# shellcheck disable=SC2254 # a row is a pattern
			case $name in $row) continue 2 ;; esac
		done <"$work/rows"
		echo "$name is not in the table"
	done)"

exports() { # HEADER LIBRARY
	name=$(basename "$1" .h)
	sed -n 's/^HWT_API .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' "$1" | sort >"$work/declared"
	nm -D --defined-only "$BUILD/$2" | sed -n 's/.* T \([^@]*\).*/\1/p' | sort >"$work/exported"
	if [ -s "$work/exported" ]; then
		result "exports_are_what_${name}_declares" "$(diff "$work/declared" "$work/exported")"
	else
		result "exports_are_what_${name}_declares" "no symbols in $BUILD/$2"
	fi
}
exports include/hwt.h libhwt.so
if [ -e "$BUILD/libhwt-store.so" ]; then
	exports store/include/hwt_store.h libhwt-store.so
else
	skip exports_are_what_hwt_store_declares "it was not built"
fi
finish
