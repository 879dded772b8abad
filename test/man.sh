#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual page that doc/man.awk makes of include/hwt.h has every function of the library, every flag and every error;
# mandoc finds nothing to complain about; and the code under "First use" of the header compiles.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
CC=${CC:-cc}
. test/result.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$work/hwt.3
awk -v date=2026-01-31 -f doc/man.awk include/hwt.h >"$page"

nm -D --defined-only "$BUILD/libhwt.so" | sed -n 's/.* T \(hwt_[a-z_]*\).*/\1/p' | sort >"$work/library"
sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/s/^\.Fo //p' "$page" | sort >"$work/synopsis"
sed -n 's/^\.Ss \(hwt_.*\)/\1/p' "$page" | tr -d ' ' | tr ',' '\n' | sort >"$work/described"
result man_page_has_the_functions_of_the_library "$([ -s "$work/library" ] || echo "no functions in $BUILD/libhwt.so"
	diff "$work/library" "$work/synopsis"; comm -23 "$work/library" "$work/described" | sed 's/$/: not described/')"

# The same parameters, by a way that knows nothing of doc/man.awk.
grep -v '^#' include/hwt.h | tr '\n\t' '  ' | grep -oE 'HWT_API [^;]*;' | sed 's/HWT_API //; s/  */ /g' | sort >"$work/declared"
awk '/^\.Ft / { gsub(/^\.Ft |"/, ""); type = $0 ($0 ~ /\*$/ ? "" : " ") }
	/^\.Fo / { line = type $2 "("; n = 0 }
	/^\.Fa / { gsub(/^\.Fa |"/, ""); line = line (n++ ? ", " : "") $0 }
	/^\.Fc/ { print line ");" }' "$page" | sort >"$work/shown"
result man_page_has_their_parameters "$(diff "$work/declared" "$work/shown")"

result man_page_has_the_names_of_the_header "$({
	sed -n 's/^#define \(HWT_[A-Z_]*\)[ (].*/\1/p' include/hwt.h | grep -vE '^HWT_(H|API|VERSION_.*)$'
	sed -n '/^typedef struct hwt_/,/^}/s/^\t[a-z].*[ *(]\([a-z_]*\)\(\[[0-9]*\]\)\{0,1\}\(;\|)(\).*/\1/p' include/hwt.h
	grep -oE '\bE[A-Z]{3,}\b' include/hwt.h | sort -u
} | while read -r name; do
	grep -qw -- "$name" "$page" || echo "the page does not say $name"
done)"

if command -v mandoc >/dev/null 2>&1; then
	result man_page_is_well_formed "$(mandoc -Tlint -W warning "$page" 2>&1)"
else
	skip man_page_is_well_formed "mandoc is not installed"
fi

# Its first line is a function, the others are part of one.
sed -n '/^ \* First use$/,/^ \* Guarantees$/s/^ \*     //p' include/hwt.h | grep -vx '\.\.\.' >"$work/lines"
{
	printf '#include <hwt.h>\n#include <stdlib.h>\nvoid refuse(void *request);\nint use(void *request);\n'
	head -1 "$work/lines"
	printf 'int use(void *request)\n{\n\thwt_unprocessed left;\n\thwt_timeout limit;\n\thwt_timer *timer;\n'
	sed 1d "$work/lines"
	printf '\treturn rc;\n}\n'
} >"$work/use.c"
result first_use_of_the_header_compiles "$(grep -q hwt_timer_destroy "$work/lines" || echo "it does not end"
	$CC -std=c11 -Wall -Wextra -Werror -Iinclude -c "$work/use.c" -o "$work/use.o" 2>&1 | head -20)"
finish
