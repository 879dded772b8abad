#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plot.sh CSV SVG: draws what run.sh has measured, a panel a figure, a row a subject, on logarithmic axes.
set -u
csv=$1
svg=$2
# shellcheck source=bench/drawing.sh
. "$(dirname "$0")/../../../bench/drawing.sh"

# panel NUMBER SCENARIO FIGURE LEAST: a file of "value row label colour" for the subjects that have it.  What is less than LEAST,
# as 0 is, lies at the beginning of the axis.
panel() {
	awk -F, -v scenario="$2" -v figure="$3" -v least="$4" '
	BEGIN {
		split("beanstalkd bullmq pgboss graphile hwt-postgresql hwt-sqlite", subjects, " ")
		for (i in subjects) row[subjects[i]] = i
	}
	!/^#/ && $2 == scenario && $3 == figure && $1 in row {
		value = $5 + 0
		label = value >= 1000 ? sprintf("%.3g", value) + 0 : sprintf("%.2g", value) + 0 # no exponent
		print (value < least ? least : value), row[$1], label, ($1 ~ /^hwt/ ? 15024461 : 3900150)
	}' "$csv" >"$data/$1"
}

plot() { # NUMBER
	printf '"%s" using 1:2:4 with points pt 7 ps 0.9 lc rgb variable notitle, ' "$data/$1"
	printf '"%s" using 1:2:3 with labels left offset 0.8,0 font ",12" tc rgb "%s" notitle\n' "$data/$1" "$grey"
}

panel 1 late late_p99 0.1
panel 2 lives lives 100
panel 3 kill wait_after_kill 0.01
panel 4 idle idle_statements 0.1
gnuplot <<-END && echo "plot: $svg"
	set terminal svg size 1000,300 dynamic font "sans-serif,13"
	set output "$svg"
	set multiplot
	set logscale x
	set format x "10^{%L}"
	set border 1 lc rgb "$grey"
	set tics nomirror tc rgb "$grey"
	set grid lc rgb "$grey" lw 0.3 dt 2
	set yrange [0.4:6.6]
	set tmargin at screen 0.85
	set bmargin at screen 0.14
	set ytics scale 0 ("beanstalkd" 1, "BullMQ" 2, "pg-boss" 3, "graphile-worker" 4, "hwt, PostgreSQL" 5, "hwt, SQLite" 6)
	set lmargin at screen 0.13
	set rmargin at screen 0.34
	set title "late by, p99, ms" tc rgb "$grey" font ",14"
	set xrange [1:9900]
	plot $(plot 1)
	set ytics ("" 1, "" 2, "" 3, "" 4, "" 5, "" 6)
	set lmargin at screen 0.36
	set rmargin at screen 0.56
	set title "jobs a second, added and run"
	set xrange [1000:500000]
	plot $(plot 2)
	set lmargin at screen 0.58
	set rmargin at screen 0.79
	set title "wait after kill -9, s"
	set xrange [0.01:900000]
	set xtics 100
	plot $(plot 3)
	set lmargin at screen 0.81
	set rmargin at screen 0.99
	set title "statements a second, idle"
	set xrange [0.1:200]
	set xtics 10
	plot $(plot 4)
END
