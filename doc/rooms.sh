#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rooms.sh: draws doc/rooms.svg, the five rooms of src/ and which includes which, from doc/rooms.csv.
set -eu
cd "$(dirname "$0")"
if ! command -v gnuplot >/dev/null 2>&1; then
	echo "plot: no gnuplot, no picture"
	exit 0
fi
grey='#768390'

boxes() {
	awk -F, -v grey="$grey" '
	function text(what, x, y, font, colour) {
		printf "set label \"%s\" at %g,%g center front font \"%s\" tc rgb \"%s\" noenhanced\n", what, x, y, font, colour
	}
	NR > 1 {
		x = ($2 + $4) / 2; y = ($3 + $5) / 2; step = $5 - $3 > 8 ? 3.6 : 0
		colour = $1 ~ /lane/ ? "#e5484d" : $1 ~ /wheel/ ? "#3b82f6" : $1 ~ /worker/ ? "#2f9e44" : grey
		printf "set object rectangle from %g,%g to %g,%g fs empty border lc rgb \"%s\" lw 2\n", $2, $3, $4, $5, colour
		if (step) {
			text($1, x, y + step, "sans-serif,17", colour); text($6, x, y + 0.2, "sans-serif,12", grey)
			text($7, x, y - step, "monospace,11", grey)
		} else
			text($1 ": " $6, x, y, "sans-serif,13", grey)
	}' rooms.csv
}

# From the lower side of one room down to the upper side of another.
arrows() {
	awk -F, -v grey="$grey" '
	function arrow(from, to, x) {
		printf "set arrow from %g,%g to %g,%g lc rgb \"%s\" lw 1.5 size screen 0.012,20 filled\n", x, low[from] - 0.7,
			x, high[to] + 0.7, grey
	}
	NR > 1 { low[$1] = $3; high[$1] = $5 }
	END {
		arrow("include/hwt.h", "src/timer", 50); arrow("src/timer", "src/worker", 50)
		arrow("src/worker", "src/wheel", 25); arrow("src/worker", "src/lane", 75)
		arrow("src/wheel", "src/base", 25); arrow("src/lane", "src/base", 75)
		arrow("src/timer", "src/lane", 94); arrow("src/worker", "src/base", 50)
	}' rooms.csv
}

gnuplot <<-END
	set terminal svg size 800,600 dynamic font "sans-serif,13"
	set output "rooms.svg"
	set margins 0, 0, 0, 0
	unset border; unset tics; unset key
	set xrange [0:100]; set yrange [4:101]
	$(boxes)
	$(arrows)
	plot NaN notitle
END
echo "plot: doc/rooms.svg"
