# SPDX-License-Identifier: BSD-2-Clause
# Makes the page's files lists of lines in C: awk -f text.awk FILE...  The name of page.html is page_html.
BEGIN { print "/* Made of store/jobs/page by text.awk. */" }
FNR == 1 {
	name = FILENAME
	sub(/.*\//, "", name)
	sub(/\./, "_", name)
	printf "%sstatic const char *const %s[] = {\n", (NR > 1 ? "NULL };\n" : ""), name
}
{
	gsub(/[\\"]/, "\\\\&")
	gsub(/\t/, "\\t")
	gsub(/\?\?/, "?\\?")
	print "\"" $0 "\\n\","
}
END { print "NULL };" }
