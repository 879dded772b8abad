# SPDX-License-Identifier: BSD-2-Clause
# Makes a table of C of the statements in *.sql: awk -f table.awk FILE... (README.md says how a file is written).
# A row is HWTS_STATEMENT(NAME, word, types, text for SQLite, text for PostgreSQL or NULL: the same).

BEGIN {
	n = split("bigint i int n bool b text t key k data d kinds l bigint[] I int[] N ids J bool[] B key[] K data[] D", word, " ")
	for (i = 1; i < n; i += 2)
		letter[word[i]] = word[i + 1]
}

function fail(what) {
	print FILENAME ":" FNR ": " what >"/dev/stderr"
	failed = 1
	exit 1
}

# Of "id bigint, key key" the letters of the types.
function types_of(parameters,    part, words, i, n, types) {
	n = split(parameters, part, ", *")
	for (i = 1; i <= n; i++) {
		if (split(part[i], words, " +") != 2 || !(words[2] in letter))
			fail("\"" part[i] "\" is not a name and a type")
		types = types letter[words[2]]
	}
	return types
}

function begin(line,    parts) {
	if (line !~ /^[A-Z_]+ [a-z_]+ \(.*\)$/)
		fail("not NAME word (parameter type, ...)")
	split(line, parts, " ")
	name = parts[1]
	if (name in types)
		fail(name " stands twice")
	order[++count] = name
	words_of[name] = parts[2]
	sub(/^[^(]*\(/, "", line)
	sub(/\)$/, "", line)
	types[name] = types_of(line)
	engine = "both"
	head = ""
}

# A head that does not end, or a word that is none, must not become part of the statement before it.
head != "" && !/^--:   / { fail("\"" head "\" is no head") }
/^--: fragment / {
	name = $3
	if ((name, "fragment") in text)
		fail("fragment " name " stands twice")
	engine = "fragment"
	next
}
/^--: each / {
	if (columns > 0)
		fail("each stands twice")
	columns = split(substr($0, 10), column, ", *")
	next
}
/^--: (sqlite|postgresql)$/ {
	engine = $2
	next
}
/^--:   / { # a head of two lines
	head = head " " substr($0, 7)
	if (head ~ /\)$/)
		begin(head)
	next
}
/^--: / {
	head = substr($0, 5)
	if (head ~ /\)$/)
		begin(head)
	next
}
/^--/ || /^$/ { next }
/--/ { fail("a comment in a line would hide the rest of the statement") }
name == "" { fail("text before the first head") }
{
	sub(/^ +/, "")
	text[name, engine] = text[name, engine] (text[name, engine] == "" ? "" : " ") $0
}

function expanded(text,    fragment) {
	while (match(text, /\{[A-Z_]+\}/)) {
		fragment = substr(text, RSTART + 1, RLENGTH - 2)
		if (text_of_fragment(fragment) == "")
			fail("there is no fragment " fragment)
		text = substr(text, 1, RSTART - 1) text_of_fragment(fragment) substr(text, RSTART + RLENGTH)
	}
	while (match(text, /\{each: [^{}]*\}/))
		text = substr(text, 1, RSTART - 1) list(substr(text, RSTART + 7, RLENGTH - 8)) substr(text, RSTART + RLENGTH)
	return text
}

# The item for each column, with its name for #.
function list(item,    i, one, items) {
	if (columns == 0 || item !~ /#/)
		fail("{each: " item "} has no columns, or no #")
	for (i = 1; i <= columns; i++) {
		one = item
		gsub(/#/, column[i], one)
		items = items (i > 1 ? ", " : "") one
	}
	return items
}

function text_of_fragment(fragment) {
	return text[fragment, "fragment"]
}

function literal(text,    rest, number) {
	text = expanded(text)
	if (text ~ /[{}]/)
		fail(name ": \"" text "\" has a brace")
	for (rest = text; match(rest, /\?[0-9]+/); rest = substr(rest, RSTART + RLENGTH)) {
		number = substr(rest, RSTART + 1, RLENGTH - 1)
		if (number + 0 < 1 || number + 0 > length(types[name]))
			fail(name " has no ?" number)
	}
	gsub(/[\\"]/, "\\\\&", text)
	return "\"" text "\""
}

END {
	if (failed)
		exit 1
	if (head != "")
		fail("\"" head "\" is no head")
	print "/* Made of store/sql by table.awk. */"
	for (i = 1; i <= count; i++) {
		name = order[i]
		same = text[name, "both"]
		if ((same == "") == (text[name, "sqlite"] text[name, "postgresql"] == ""))
			fail(name " has no text, or one for both and one for an engine")
		printf "HWTS_STATEMENT(%s, \"%s\", \"%s\",\n\t%s,\n\t%s)\n", name, words_of[name], types[name],
			literal(same != "" ? same : text[name, "sqlite"]), same != "" ? "NULL" : literal(text[name, "postgresql"])
	}
}
