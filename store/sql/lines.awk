# SPDX-License-Identifier: BSD-2-Clause
# Makes strings of C of the lines of a script, without its comments: awk [-v comma=,] -f lines.awk FILE.
# The script names the tables and functions of a store with the prefix hwt in the schema public.  In the strings ` stands
# for that schema and prefix, and @ for the prefix alone.
BEGIN { print "/* Made of store/sql by lines.awk. */" }
/^ *--/ { next }
comma == "" { sub(/ +-- .*/, "") }
/[`@]/ {
	print FILENAME ":" FNR ": ` and @ stand for the schema and the prefix" >"/dev/stderr"
	exit 1
}
/^$/ && !begun { next }
{
	begun = 1
	gsub(/public\.hwt_/, "`")
	gsub(/hwt_/, "@_")
	gsub(/hwt\./, "@.")
	gsub(/[\\"]/, "\\\\&")
	print "\"" $0 (comma == "" ? "\\n" : "") "\"" comma
}
