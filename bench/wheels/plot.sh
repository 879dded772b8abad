#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plot.sh CSV SVG: draws what `wheels` wrote: CPU of a timeout's life and of waiting, and memory, against the number
# pending, one curve a wheel.
set -u
csv=$1
svg=$2
if ! command -v gnuplot >/dev/null 2>&1; then
	echo "plot: no gnuplot, no picture"
	exit 0
fi
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# panel NUMBER DELAY FIGURE: a file for each wheel.
panel() {
	awk -F, -v delay="$2" -v figure="$3" -v data="$data/$1" 'NR > 1 && $2 == delay && $4 == figure {
		name = $1; gsub(/[ ^]/, "_", name)
		print $3, ($5 > 0 ? $5 : 0.01) >(data "-" name)
	}' "$csv"
}

# curves NUMBER
curves() {
	for file in "$data/$1"-*; do
		name=$(basename "$file" | sed "s/^$1-//; s/_/ /g; s/2 20/2^{20}/")
		case $name in
		'hashed 512') look='lc rgb "#c00000" lw 3' ;;
		hashed*) look='lc rgb "#e08000" lw 2' ;;
		*64) look='lc rgb "#0060c0" lw 2' ;;
		*) look='lc rgb "#000000" lw 3' ;;
		esac
		printf '"%s" using 1:2 with linespoints %s title "%s"\n' "$file" "$look" "$name"
	done | paste -sd, -
}

panel 1 '1 h' 'waiting ms/s'
panel 2 '10 ms .. 30 days' 'waiting ms/s'
panel 3 '1 h' 'life ns'
panel 4 '1 h' bytes
gnuplot <<-END
	set terminal svg size 1000,760 background rgb "white"
	set output "$svg"
	set multiplot layout 2,2
	set logscale xy
	set format x "10^{%L}"
	set grid
	set pointsize 0.5
	set xlabel "pending timeouts"
	set xrange [1000:*]
	set key left top font ",10"
	set title "CPU ms a second while they wait, one task a tick; 1 h"
	plot $(curves 1)
	set title "the same, delays of 10 ms to 30 days"
	plot $(curves 2)
	set key right top
	set title "CPU ns a timeout from the wheel to the end of its task; 1 h"
	plot $(curves 3)
	set title "bytes a pending timeout, of all that the timer holds"
	plot $(curves 4)
END
