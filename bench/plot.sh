#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plot.sh CSV: draws the pictures of a run beside its CSV: NAME-throughput.svg, NAME-cpu.svg, NAME-lateness.svg,
# NAME-memory.svg, as far as what they show was measured.
set -u
status=0
csv=$1
base=${csv%.csv}
if ! command -v gnuplot >/dev/null 2>&1; then
	echo "plot: no gnuplot, no pictures"
	exit 0
fi
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# rows SCENARIO TICK_MS FIGURE COLUMN: for each subject a file DATA/SUBJECT of "COLUMN median min max", sorted.
rows() {
	rm -f "$data"/*
	awk -F, -v scenario="$1" -v tick="$2" -v figure="$3" -v column="$4" -v data="$data" '
	NR > 1 && $1 == scenario && $5 == tick && (figure == "" || $6 == figure) {
		x = column == "quantile" ? ($6 ~ /^(p[0-9.]+|max)$/ ? $6 : "") : $column
		if (x != "")
			print x, $7, $8, $9 >>(data "/" $2)
	}' "$csv"
	for file in "$data"/*; do
		[ -e "$file" ] || return 1
		[ "$4" = quantile ] || sort -n -o "$file" "$file"
	done
}

# One a subject, the same in all pictures.
colour() {
	case $1 in
	hwt) echo '#c00000' ;;
	netty) echo '#0060c0' ;;
	go) echo '#00a0b0' ;;
	heap) echo '#707070' ;;
	textbook) echo '#000000' ;;
	libevent) echo '#e08000' ;;
	libuv) echo '#208020' ;;
	asio) echo '#8040a0' ;;
	glib) echo '#90c040' ;;
	*) echo '#d070b0' ;;
	esac
}

# The clauses of a plot command, one a subject, ours first and thick.
curves() {
	look='with linespoints lc rgb'
	for file in "$data"/*; do
		name=$(basename "$file")
		colour=$(colour "$name")
		case $name in
		hwt) printf '0 "%s" using %s %s "%s" lw 4 title "%s"\n' "$file" "$1" "$look" "$colour" "$name" ;;
		floor) ;;
		*) printf '1 "%s" using %s %s "%s" lw 1.5 title "%s"\n' "$file" "$1" "$look" "$colour" "$name" ;;
		esac
	done | sort | cut -d' ' -f2- | paste -sd, -
}

# picture NAME TITLE XLABEL YLABEL SETTINGS USING
picture() {
	gnuplot <<-END && echo "plot: $base-$1.svg" || status=1
		set terminal svg size 800,500 background rgb "white"
		set output "$base-$1.svg"
		set title "$2"
		set xlabel "$3"
		set ylabel "$4"
		set key outside right
		set grid
		set pointsize 0.6
		set xtics font ",11"
		$5
		plot $(curves "$6")
	END
}

if rows S1 1 Mop/s 3; then
	picture throughput 'S1: schedule, from P threads' 'producer threads' 'million operations a second' \
		'set logscale x 2; set xtics (1, 2, 4, 8, 16, 32); set yrange [0:*]' 1:2
fi
if rows S2 1 Mpairs/s 3; then
	picture churn 'S2: schedule and cancel at once, from P threads' 'producer threads' 'million pairs a second' \
		'set logscale x 2; set xtics (1, 2, 4, 8, 16, 32); set yrange [0:*]' 1:2
fi
if rows S6 1 'ticking CPU ms/s' 4; then
	# A row of none does not lie on a logarithmic axis: it is put at its beginning.
	picture cpu 'S6: CPU time of a timer that ticks, while far timeouts wait' 'pending timeouts' 'CPU ms a second' \
		'set logscale xy; set format x "10^{%L}"' "(\$1 > 0 ? \$1 : 1000):(\$2 > 0 ? \$2 : 0.01)"
fi
if rows S4 1 '' quantile; then
	picture lateness 'S4: lateness of timeouts, tick 1 ms' 'quantile' 'ms late' \
		'set logscale y; set yrange [0.01:*]' '0:($2 > 0.01 ? $2 : 0.01):xtic(1)'
fi
if rows S2 1 'peak RSS MB' 3; then
	picture memory 'S2: peak RSS while everything is cancelled at once, tick 1 ms' 'producer threads' 'MB' \
		'set logscale x 2; set xtics (1, 2, 4, 8, 16, 32); set logscale y; set yrange [0.1:*]' \
		"1:(\$2 > 0.1 ? \$2 : 0.1)"
fi
exit $status
