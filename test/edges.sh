#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The order of memory accesses, as far as text can tell: an ordered access names its edge in brackets near by, a relaxed one says why it is
# relaxed, and each edge that a header describes stands at two ends at least.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
core=$(ls src/timer/*.[ch] src/worker/*.[ch] src/wheel/*.[ch] src/lane/*.[ch] src/base/*.[ch] test/check/*.[ch])

# Within a function (from a "{" in the first column, its comment above included) the word must come up.
near() { # ACCESS WORD
	awk -v access="$1" -v word="$2" '
		FNR == 1 { said = 0 }
		/^\/\*/ || /^}/ { said = 0 }
		$0 ~ word { said = 1 }
		$0 ~ access { missing[FILENAME ": " FNR] = 1; if (said) delete missing[FILENAME ": " FNR]; last = FILENAME ": " FNR }
		END { for (m in missing) print m ": " word " is not named" }' $core store/src/*/*.[ch]
}

result relaxed_accesses_say_why "$(near 'memory_order_relaxed' '(^|[^_])[Rr]elaxed[:,]')"
result ordered_accesses_name_their_edge "$(near 'memory_order_(acquire|release|acq_rel)' '\\[[a-z]+\\]|(tries|checks) again|(of|by) a test|a test.s')"

edges=$(cat src/timer/*.h src/worker/*.h src/wheel/*.h src/lane/*.h src/base/*.h | sed -n 's/^ \*   \(\[[a-z]*\]\) .*/\1/p' | sort -u)
result every_edge_stands_at_two_ends "$(for edge in $edges; do
	ends=$(grep -hF "$edge" $core | grep -vcE '^ \*   \[')
	[ "$ends" -ge 2 ] || echo "$edge: $ends"; done)"
result every_edge_is_described "$(grep -ohE '\[[a-z]+\]' $core | sort -u | grep -vxE '\[(bucket|entry|index|i|j|l|n|armed|ring|state|bit|capacity|class|larger|level|place|turn|clock|side)\]' |
	while read -r edge; do echo "$edges" | grep -qxF "$edge" || echo "$edge"; done)"
finish
