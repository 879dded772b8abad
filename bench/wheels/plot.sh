#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plot.sh CSV SVG: draws what `wheels` wrote: CPU of a timeout's life and of waiting, and memory, against the number
# pending, one curve a wheel.
set -u
csv=$1
svg=$2
# shellcheck source=bench/drawing.sh
. "$(dirname "$0")/../drawing.sh"

# panel NUMBER DELAY FIGURE: a file for each wheel.
panel() {
	awk -F, -v delay="$2" -v figure="$3" -v data="$data/$1" '$2 == delay && $4 == figure {
		name = $1; gsub(/[ ^]/, "_", name)
		print $3, ($5 > 0 ? $5 : 0.01) >(data "-" name)
	}' "$csv"
}

# curves NUMBER
curves() {
	for file in "$data/$1"-*; do
		name=$(basename "$file" | sed "s/^$1-//; s/_/ /g; s/2 20/2^{20}/")
		case $name in
		'hashed 512') look='lc rgb "#e5484d" lw 3' ;;
		hashed*) look='lc rgb "#d97706" lw 2' ;;
		*64) look='lc rgb "#3b82f6" lw 2' ;;
		*) look='lc rgb "#2f9e44" lw 3' ;;
		esac
		printf '"%s" using 1:2 with linespoints %s title "%s"\n' "$file" "$look" "$name"
	done | paste -sd, -
}

panel 1 '1 h' 'waiting ms/s'
panel 2 '10 ms .. 30 days' 'waiting ms/s'
panel 3 '1 h' 'life ns'
panel 4 '1 h' bytes
gnuplot <<-END && echo "plot: $svg"
	set terminal svg size 1000,760 dynamic font "sans-serif,13"
	set output "$svg"
	set multiplot layout 2,2
	set logscale xy
	set format x "10^{%L}"
	set border 3 lc rgb "$grey"
	set tics nomirror tc rgb "$grey"
	set grid lc rgb "$grey" lw 0.3 dt 2
	set pointsize 0.5
	set xlabel "pending timeouts" tc rgb "$grey"
	set xrange [1000:*]
	set key left top tc rgb "$grey"
	set title "CPU ms a second while they wait, one task a tick; 1 h" tc rgb "$grey"
	plot $(curves 1)
	set title "the same, delays of 10 ms to 30 days"
	plot $(curves 2)
	set key right top
	set title "CPU ns a timeout, from the wheel to the end of its task; 1 h"
	plot $(curves 3)
	set title "bytes a pending timeout, of all that the timer holds"
	plot $(curves 4)
END
