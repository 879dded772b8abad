#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# summary.sh FILE...: medians of what store/bench/run.sh has written, and ratios round by round, which a noisy minute does
# not spoil.
set -u
sorted() {
	sort -t, -k5,5 -k2,2 -k3,3n -k7,7g
}
median='function median() { return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }'

echo "| figure | engine | far rows | median | min .. max | rounds |"
echo "|---|---|---|---|---|---|"
cat "$@" | sorted | awk -F, "$median"'
	function flush() {
		if (n) printf "| %s | %s | %s | %.4g %s | %.4g .. %.4g | %d |\n", figure, engine, far, median(), unit, v[1], v[n], n
		n = 0
	}
	$5 "," $2 "," $3 != key { flush(); key = $5 "," $2 "," $3; figure = $5; engine = $2; far = $3; unit = $6 }
	{ v[++n] = $7 }
	END { flush() }'
echo
echo "| ratio, round by round | engine | median | min .. max | rounds |"
echo "|---|---|---|---|---|"
cat "$@" | awk -F, '
	$3 > 0 && $1 > 0 { far[$5 "," $2 "," $1] = $7 }
	$3 == 0 { near[$5 "," $2 "," $1] = $7 }
	$5 == "put_1_thread" { one[$2 "," $3 "," $1] = $7 }
	$5 == "put_16_threads" { sixteen[$2 "," $3 "," $1] = $7 }
	END {
		for (key in far) if (near[key] > 0) {
			split(key, part, ",")
			print part[3] "," part[2] ",0,0," part[1] " with far rows / without,," far[key] / near[key]
		}
		for (key in one) if (sixteen[key] > 0) {
			split(key, part, ",")
			print part[3] "," part[1] ",0,0,16 threads / 1 thread" (part[2] > 0 ? " with far rows" : "") ",," sixteen[key] / one[key]
		}
	}' | sorted | awk -F, "$median"'
	function flush() {
		if (n) printf "| %s | %s | %.3g | %.3g .. %.3g | %d |\n", figure, engine, median(), v[1], v[n], n
		n = 0
	}
	$5 "," $2 != key { flush(); key = $5 "," $2; figure = $5; engine = $2 }
	{ v[++n] = $7 }
	END { flush() }'
