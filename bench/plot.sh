#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plot.sh CSV [FOLDER]: draws the pictures of a run beside its CSV, NAME-churn.svg and so on, as far as what they show
# was measured.  With FOLDER it draws only those that the documents show: churn.svg, lateness.svg and tail.svg.
set -u
status=0
csv=$1
folder=${2:-}
base=${folder:+$folder/}
base=${base:-${csv%.csv}-}
# shellcheck source=bench/drawing.sh
. "$(dirname "$0")/drawing.sh"
# shellcheck disable=SC2016 # gnuplot's column
doubling='(log($1) / log(2))' # an axis with a step for each doubling of the threads

# rows SCENARIO TICK_MS FIGURE COLUMN: writes a file DATA/SUBJECT of "COLUMN median min max", sorted, for each subject.
rows() {
	rm -f "$data"/*
	awk -F, -v scenario="$1" -v tick="$2" -v figure="$3" -v column="$4" -v data="$data" '
	/^#/ { next }
	$1 == scenario && $5 == tick && $6 == figure && $2 != "floor" && $2 != "levels" {
		print $column, $7, $8, $9 >>(data "/" $2)
	}' "$csv"
	for file in "$data"/*; do
		[ -e "$file" ] || return 1
		sort -n -o "$file" "$file"
	done
}

# Each subject has one colour in all pictures.
colour() {
	case $1 in
	hwt) echo '#e5484d' ;;
	netty) echo '#3b82f6' ;;
	go) echo '#0d9aa8' ;;
	heap) echo '#8b8f94' ;;
	textbook) echo '#b07d48' ;;
	libevent) echo '#d97706' ;;
	libuv) echo '#2f9e44' ;;
	asio) echo '#9b5de5' ;;
	glib) echo '#7fa51a' ;;
	none) echo '#545d68' ;;
	*) echo '#d6589f' ;;
	esac
}

# The clauses of a plot command, one for each subject, ours last and thick.
curves() { # USING
	for file in "$data"/*; do
		name=$(basename "$file")
		width=1.5 place=0
		[ "$name" != hwt ] || width=4 place=1
		printf '%s "%s" using %s with linespoints lc rgb "%s" lw %s title "%s"\n' "$place" "$file" "$1" \
			"$(colour "$name")" "$width" "$name"
	done | sort | cut -d' ' -f2- | paste -sd, -
}

# One point for each subject, with its name beside it.
points() { # USING
	for file in "$data"/*; do
		name=$(basename "$file")
		size=0.9 font=13 beside=0.1
		case $name in # those that lie close together
		hwt) size=1.6 font=17 beside=0.9 ;;
		asio) beside=0.5 ;;
		libevent) beside=-0.3 ;;
		textbook | heap | netty) beside=-0.8 ;;
		esac
		printf '"%s" using %s with points pt 7 ps %s lc rgb "%s" notitle\n' "$file" "$1" "$size" "$(colour "$name")"
		printf '"%s" using %s:("%s") with labels left offset 1.3,%s font ",%s" tc rgb "%s" notitle\n' "$file" \
			"$1" "$name" "$beside" "$font" "$(colour "$name")"
	done | paste -sd, -
}

# picture NAME TITLE XLABEL YLABEL SETTINGS PLOT
picture() {
	gnuplot <<-END && echo "plot: $base$1.svg" || status=1
		set terminal svg size 800,480 dynamic font "sans-serif,13"
		set output "$base$1.svg"
		set title "$2" tc rgb "$grey" font ",15"
		set xlabel "$3" tc rgb "$grey"
		set ylabel "$4" tc rgb "$grey"
		set border 3 lc rgb "$grey"
		set tics nomirror tc rgb "$grey"
		set key outside right tc rgb "$grey"
		set grid lc rgb "$grey" lw 0.3 dt 2
		set pointsize 0.6
		$5
		plot $6
	END
}

if rows S2 1 Mpairs/s 3; then
	picture churn 'Schedule and cancel at once, from P threads' 'threads that schedule and cancel' \
		'million pairs a second' 'set offsets 0.1, 0.1, 0, 0; set yrange [0:*]' \
		"$(curves "$doubling:2:xtic(1)")"
fi
if rows S4 1 p99 2; then
	for file in "$data"/*; do # "CPU p99"
		late=$(cut -d' ' -f2 "$file")
		awk -F, -v subject="$(basename "$file")" -v late="$late" '
			$1 == "S4" && $2 == subject && $6 == "CPU ms/s" { print $7, late }' "$csv" >"$data/one"
		mv "$data/one" "$file"
	done
	picture lateness 'What precision costs: tasks at random times, tick 1 ms (left and low is better)' \
		'CPU ms a second' 'ms late, p99' 'set logscale y; set xrange [0:*]; set offsets 0, 30, 0, 0; set key off' \
		"$(points 1:2)"
fi

rm -f "$data"/*
awk -F, -v data="$data" '$1 == "S9" && $3 == 2 && split($6, word, "us p") == 2 && word[1] == "schedule " {
	print ++at[$2], $7, $8, $9, word[2] >>(data "/" $2)
}' "$csv"
if [ -e "$data/hwt" ]; then
	picture tail 'How long schedule takes at worst: two threads with 1000 pending each' \
		'% of the calls take no longer' 'us' 'set logscale y; set offsets 0.1, 0.1, 0, 0; set key bottom' \
		"$(curves '1:2:xtic(5)')"
fi
[ -z "$folder" ] || exit $status

if rows S1 1 Mop/s 3; then
	picture throughput 'S1: schedule, from P threads' 'producer threads' 'million operations a second' \
		'set offsets 0.1, 0.1, 0, 0; set yrange [0:*]' "$(curves "$doubling:2:xtic(1)")"
fi
if rows S6 1 'ticking CPU ms/s' 4; then
	# A row of none does not lie on a logarithmic axis: it is put at its beginning.
	picture cpu 'S6: CPU time of a timer that ticks, while far timeouts wait' 'pending timeouts' 'CPU ms a second' \
		'set logscale xy; set format x "10^{%L}"' "$(curves "(\$1 > 0 ? \$1 : 1000):(\$2 > 0 ? \$2 : 0.01)")"
fi
if rows S2 1 'peak RSS MB' 3; then
	picture memory 'S2: peak RSS while everything is cancelled at once, tick 1 ms' 'producer threads' 'MB' \
		'set offsets 0.1, 0.1, 0, 0; set logscale y; set yrange [0.1:*]' \
		"$(curves "$doubling:(\$2 > 0.1 ? \$2 : 0.1):xtic(1)")"
fi
exit $status
