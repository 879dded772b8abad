#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tables.sh FILE: what store/bench/scale.sh has written as tables, one for each scenario, with a column for each figure.
set -u
awk -F, '
	{ split($2, part, "/")
		what = part[1]; row = $1 substr($2, length(what) + 1)
		if (!(what in rows)) scenarios[++n] = what
		if (!((what, row) in has)) { has[what, row]; name[what, ++rows[what]] = row }
		if (!((what, $3) in has)) { has[what, $3]; figure[what, ++columns[what]] = $3; unit[what, columns[what]] = $4 }
		value[what, row, $3] = sprintf("%.4g", $5) }
	END { for (i = 1; i <= n; i++) {
		what = scenarios[i]
		printf "\n| %s |", what
		for (c = 1; c <= columns[what]; c++) printf " %s, %s |", figure[what, c], unit[what, c]
		printf "\n|---|"
		for (c = 1; c <= columns[what]; c++) printf "---|"
		printf "\n"
		for (r = 1; r <= rows[what]; r++) {
			printf "| %s |", name[what, r]
			for (c = 1; c <= columns[what]; c++) printf " %s |", value[what, name[what, r], figure[what, c]]
			printf "\n"
		}
	} }' "$1"
