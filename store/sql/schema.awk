# SPDX-License-Identifier: BSD-2-Clause
# Puts the tables of a store into a page: awk -f schema.awk tables_postgresql.sql tables_sqlite.sql schema.md.  They
# replace what stands between the two comments of the page.  The comments of the scripts say what a table and a column
# are for.  Of tables_sqlite.sql only what the first script lacks is taken.

# A comment may have several lines.
function add(text, separator, line) {
	sub(/^ *-- */, "", line)
	return text (text == "" ? "" : separator) line
}

# Columns that begin with next_ and follow each other are one row.
function write(table,    names, n, i, first) {
	print "\n## " table "\n\n" about[table] "\n\n| column | type | |\n|---|---|---|"
	n = split(columns[table], names, " ")
	for (i = 1; i <= n; i++) {
		first = names[i]
		printf "| `%s`", first
		while (names[i] ~ /^next_/ && names[i + 1] ~ /^next_/)
			printf ", `%s`", names[++i]
		print " | " (names[i] == first ? type[table, first] : "") " | " said[table, first] " |"
	}
}

FILENAME ~ /md$/ {
	inside = inside && !/^<!-- end/
	if (!inside)
		print
	if (/^<!-- begin/) {
		inside = 1
		for (i = 1; i <= count; i++)
			write(tables[i])
		print ""
	}
	next
}
/^$/ { comment = table = "" }
/^--/ { comment = add(comment, "\n", $0) }
/^create table/ {
	table = $(NF - 1)
	if (!(table in about)) {
		tables[++count] = table
		about[table] = comment
	}
}
/^  [a-z_]+ [a-z]/ && !/^  (primary|with)/ && table != "" {
	new = !((table, $1) in said)
	if (new) {
		column = $1
		columns[table] = columns[table] " " column
		type[table, column] = $2
		sub(/[,;)]+$/, "", type[table, column])
		said[table, column] = / -- / ? substr($0, index($0, " -- ") + 4) : ""
	}
}
/^ +-- / && table != "" && new { said[table, column] = add(said[table, column], " ", $0) }
