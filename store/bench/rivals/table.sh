#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# table.sh FILE: the figures of run.sh as a table of markdown, a row a figure, a column a subject.
awk -F, '
	function unit_of(row) { return units[row] }
	!/^#/ {
		row = $2 " " $3
		if (!(row in units)) { rows[++n] = row; units[row] = $4 }
		if (!($1 in seen)) { seen[$1] = 1; subjects[++m] = $1 }
		value[row, $1] = $5
	}
	END {
		printf "| figure | unit |"
		for (j = 1; j <= m; j++) printf " %s |", subjects[j]
		printf "\n|---|---|"
		for (j = 1; j <= m; j++) printf "---|"
		print ""
		for (i = 1; i <= n; i++) {
			printf "| %s | %s |", rows[i], unit_of(rows[i])
			for (j = 1; j <= m; j++)
				printf " %s |", ((rows[i], subjects[j]) in value) ? sprintf("%.3g", value[rows[i], subjects[j]]) + 0 : "-"
			print ""
		}
	}' "$1"
