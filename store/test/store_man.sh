#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# store/doc/hwt_store.3 is tied to store/include/hwt_store.h: the same functions with the same parameters, the same errors, every
# flag and every member of the structures that programs fill in.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/result.sh
header=${HEADER:-store/include/hwt_store.h}
page=${PAGE:-store/doc/hwt_store.3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One line a function: TYPE NAME(PARAMETER, ...)
sed 's#/\*.*\*/##' "$header" | awk '
	/^HWT_API / { on = 1; line = "" }
	on { line = line " " $0 }
	on && /;/ { on = 0; sub(/^ *HWT_API /, "", line); sub(/;.*/, "", line); gsub(/[ \t]+/, " ", line); print line }
' | sort >"$work/header"
awk '
	function unquote(text) { gsub(/"/, "", text); return text }
	/^\.Sh / { on = $2 == "SYNOPSIS" }
	!on { next }
	/^\.Ft / { type = unquote(substr($0, 5)); if (type !~ /\*$/) type = type " " }
	/^\.Fn / {
		n = split(substr($0, 5), part, /"/); name = part[1]; sub(/ .*/, "", name); parameters = ""
		for (i = 2; i <= n; i += 2) parameters = parameters (i > 2 ? ", " : "") part[i]
		if (n == 1) parameters = substr($0, 6 + length(name))
		print type name "(" parameters ")"
	}
	/^\.Fo / { name = $2; parameters = "" }
	/^\.Fa / { parameters = parameters (parameters == "" ? "" : ", ") unquote(substr($0, 5)) }
	/^\.Fc/ { print type name "(" parameters ")" }
' "$page" | sort >"$work/page"
result man_page_has_the_functions_of_the_header "$([ -s "$work/header" ] || echo "no functions in $header"
	diff "$work/header" "$work/page")"

# The table "Errors" of the header against the section.
sed -n '/^ \* Errors$/,/^ \* Time$/p' "$header" | grep -oE '\bE[A-Z]{2,}\b' | sort -u >"$work/header"
sed -n 's/^\.It Bq Er //p' "$page" | sort -u >"$work/page"
result man_page_has_the_errors_of_the_header "$([ -s "$work/header" ] || echo "no errors in $header"
	diff "$work/header" "$work/page")"

result man_page_has_the_names_of_the_header "$({
	sed -n 's/^#define \(HWT_STORE_[A-Z_]*\) .*/\1/p' "$header" | grep -v '_INIT$'
	sed -n '/^typedef struct hwt_store_\(config\|kind\|spec\) {/,/^}/{
		s#/\*.*##; s/^\t.*[ *]\([a-z_]*\)\(, \*\?[a-z_]*\)*;.*/\1/p; }' "$header" |
		grep -vxE 'size|ctx|warn_ctx|ended_ctx|reserved'
} | while read -r name; do
	grep -qw -- "$name" "$page" || echo "$page does not say $name"
done)"
finish
