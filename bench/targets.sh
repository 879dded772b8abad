#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# targets.sh CSV: the ratios between rows of one run, and what is to be flat.
#
# A ratio is taken round by round (the rounds of a scenario go around its rows, so those of one number saw the same
# machine) and printed as the median with the least and the largest.  What was not measured is left out.
set -u
awk -F, '
NR == 1 { next }
{
	key = $1 " " $2 " " $3 " " $4 " " $5 " " $6
	values[key] = $13
	at = $1 " " $2 " " $3 " " $5 " " $6            # whatever n
	if (!((at, $4) in seen)) {
		seen[at, $4] = 1
		sizes[at] = sizes[at] " " $4
	}
}
function median(list, count,    i, k, one) {
	for (i = 2; i <= count; i++) {
		one = list[i]
		for (k = i - 1; k >= 1 && list[k] > one; k--)
			list[k + 1] = list[k]
		list[k + 1] = one
	}
	return count % 2 ? list[(count + 1) / 2] : (list[count / 2] + list[count / 2 + 1]) / 2
}
function text(value) {
	return sprintf(value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value)
}
function heading(line) {
	pending = line
}
function line(label, value) {
	if (pending != "")
		print "\n" pending
	pending = ""
	printf "  %-58s %s\n", label, value
}
# The figure of one row over that of another.
function ratio(label, key1, key2,    one, two, count1, count2, count, i, list, middle) {
	if (!(key1 in values) || !(key2 in values))
		return
	count1 = split(values[key1], one, " ")
	count2 = split(values[key2], two, " ")
	for (i = 1; i <= count1 && i <= count2; i++)
		if (two[i] + 0 > 0)
			list[++count] = one[i] / two[i]
	if (!count)
		return
	middle = median(list, count)
	line(label, text(middle) " (" text(list[1]) ".." text(list[count]) ")")
}
function plain(label, key, unit,    list, count, i, middle) {
	if (!(key in values))
		return
	count = split(values[key], list, " ")
	for (i = 1; i <= count; i++)
		list[i] += 0
	middle = median(list, count)
	line(label, text(middle) " (" text(list[1]) ".." text(list[count]) ") " unit)
}
# The largest or smallest n that a row has been measured with.
function size(at, large,    list, count, i, best) {
	count = split(sizes[at], list, " ")
	for (i = 1; i <= count; i++)
		if (best == "" || (large ? list[i] + 0 > best : list[i] + 0 < best))
			best = list[i] + 0
	return best
}
function versus(scenario, mine, theirs, p, tick, figure,    n) {
	n = size(scenario " " mine " " p " " tick " " figure, 1)
	ratio(scenario " P=" p " tick " tick " ms n=" n ": " mine " / " theirs ", " figure,
	      scenario " " mine " " p " " n " " tick " " figure,
	      scenario " " theirs " " p " " n " " tick " " figure)
}
function growth(scenario, p, figure, subject,    list, count, i, least, row) {
	row = scenario " " subject " " p
	count = split(sizes[row " 1 " figure], list, " ")
	least = size(row " 1 " figure, 0)
	for (i = 1; i <= count; i++)
		if (list[i] != least)
			ratio(scenario " " subject ": n=" list[i] " / n=" least ", " figure,
			      row " " list[i] " 1 " figure, row " " least " 1 " figure)
}
END {
	np = split("1 2 4 32", ps, " ")
	nt = split("1 100", ticks, " ")

	heading("Schedule, times the throughput (S1, S1w)")
	for (t = 1; t <= nt; t++)
		for (p = 1; p <= np; p++)
			versus("S1", "hwt", "netty", ps[p], ticks[t], "Mop/s")
	for (p = 1; p <= np; p++)
		versus("S1t", "hwt", "netty", ps[p], 1, "Mop/s")
	for (p = 1; p <= np; p++)
		versus("S1w", "hwt", "netty", ps[p], 1, "Mop/s")
	versus("S1wat", "hwt", "floor", 1, 1, "Mop/s")
	versus("S1w", "hwt", "floor", 1, 1, "Mop/s")

	heading("Schedule, producer CPU time, times that of the floor")
	versus("S1wat", "hwt", "floor", 1, 1, "producer ns/op")
	versus("S1w", "hwt", "floor", 1, 1, "producer ns/op")

	heading("Churn, times the throughput (S2, S2w, S2x)")
	for (t = 1; t <= nt; t++)
		for (p = 1; p <= np; p++)
			versus("S2", "hwt", "netty", ps[p], ticks[t], "Mpairs/s")
	for (p = 1; p <= np; p++)
		versus("S2w", "hwt", "textbook", ps[p], 1, "cancel Mop/s")
	for (p = 1; p <= np; p++) {
		versus("S2x", "hwt", "netty", ps[p], 1, "Mexchanges/s")
		versus("S2x", "hwt", "buckets", ps[p], 1, "Mexchanges/s")
		versus("S2x.due", "hwt", "buckets", ps[p], 1, "Mexchanges/s")
	}

	heading("Churn, peak RSS beyond that before")
	for (t = 1; t <= nt; t++)
		for (p = 1; p <= np; p++) {
			figure = ticks[t] " peak RSS MB"
			at = " " ps[p] " " size("S2 hwt " ps[p] " " figure, 1) " " figure
			plain("S2 P=" ps[p] " tick " ticks[t] " ms: hwt", "S2 hwt" at, "MB")
			plain("S2 P=" ps[p] " tick " ticks[t] " ms: netty", "S2 netty" at, "MB")
		}

	heading("Tail of a schedule (S9), us")
	for (p = 1; p <= np; p++) {
		versus("S9", "hwt", "none", ps[p], 1, "schedule us p99.999")
		at = " " ps[p] " " size("S9 hwt " ps[p] " 1 schedule us p99.99", 1) " 1 schedule us p99.99"
		plain("S9 P=" ps[p] ": hwt, p99.99", "S9 hwt" at, "us")
	}

	heading("Fire, times the throughput (S3)")
	versus("S3", "hwt", "netty", 1, 1, "Mtasks/s")
	versus("S3.spread", "hwt", "netty", 1, 1, "Mtasks/s")
	heading("Fire, worker CPU time")
	versus("S3", "hwt", "netty", 1, 1, "worker ns/task")
	versus("S3.spread", "hwt", "netty", 1, 1, "worker ns/task")

	heading("Far timeouts, CPU ms/s (S6)")
	versus("S6", "textbook", "hwt", 1, 1, "ticking CPU ms/s")
	n = size("S6 hwt 1 1 ticking CPU ms/s", 1)
	plain("S6 n=" n ": hwt, one task a tick", "S6 hwt 1 " n " 1 ticking CPU ms/s", "")
	plain("S6 n=" n ": hwt, idle", "S6 hwt 1 " n " 1 idle CPU ms/s", "")
	plain("S6 n=" n ": textbook, idle", "S6 textbook 1 " n " 1 idle CPU ms/s", "")

	heading("Steady stream, worker CPU time a timeout")
	growth("S6c.rate", 1, "worker ns/task", "hwt")
	growth("S6c", 1, "worker ns/task", "hwt")
	growth("S6m", 1, "worker ns/task", "hwt")

	heading("Memory a pending timeout")
	count = split(sizes["S6 hwt 1 1 RSS B/pending"], list, " ")
	for (i = 1; i <= count; i++)
		if (list[i] > 0) {
			plain("S6 n=" list[i] ": hwt", "S6 hwt 1 " list[i] " 1 RSS B/pending", "bytes")
			plain("S6 n=" list[i] ": netty", "S6 netty 1 " list[i] " 1 RSS B/pending", "bytes of heap")
		}

	heading("Growth, against the smallest n (S8)")
	growth("S8.S1", 1, "Mop/s", "hwt")
	growth("S8.S2", 1, "Mpairs/s", "hwt")
	growth("S8.S3", 1, "worker ns/task", "hwt")
	growth("S8.S6", 1, "ticking CPU ms/s", "hwt")
}' "$1"
