# SPDX-License-Identifier: BSD-2-Clause
# awk -v date=YYYY-MM-DD -f doc/man.awk include/hwt.h: writes the manual page hwt(3) from the header's comments.
#
# A comment of one line is a section.  In the first comment a line that stands alone between empty ones is a heading.
# "Threads", "Returns", "Order", "Cost" and the guarantees begin items.  What is indented by five or more is verbatim.

function escape(text) {
	gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text)
	return text ~ /^[.']/ ? "\\&" text : text
}
# A sentence begins on a line of its own.
function put(text,    n, i, sentence) {
	n = split(text, sentence, /  /)
	for (i = 1; i <= n; i++) if (sentence[i] != "") body = body escape(sentence[i]) "\n"
}
function tail() { return substr(body, length(body) - 100 > 0 ? length(body) - 100 : 1) }
function verbatim(on) {
	if (on == literal) return
	body = body (on ? ".Bd -literal\n" : ".Ed\n")
	literal = on; gap = 0
}
function listing(on) {
	if (on == items) return
	body = body (on ? ".Bl -tag -width Threads\n" : ".El\n")
	items = on; gap = 0
}
function paragraph() {
	if ((gap || tail() ~ /\.E[dl]\n$/) && !items && tail() !~ /(^|\n)\.(S[hs]|Pp)[^\n]*\n$/) body = body ".Pp\n"
	gap = 0
}

# One comment's text, without its stars, to body.
function prose(text, first,    n, i, line, part, indent, word) {
	n = split(text, part, "\n")
	for (i = 1; i <= n; i++) {
		line = part[i]
		match(line, /^ */); indent = RLENGTH
		if (line == "") { if (literal) blank++; else gap = 1; continue }
		if (indent >= 5 && !(items && indent <= 10)) {
			listing(0); verbatim(1)
			while (blank-- > 0) body = body "\n"
			blank = 0; body = body escape(substr(line, 5)) "\n"
			continue
		}
		blank = 0; verbatim(0)
		sub(/^ +/, "", line)
		if (first && indent == 1 && part[i - 1] == "" && part[i + 1] == "" && line !~ /\.$/) {
			listing(0); body = body ".Ss " escape(line) "\n"; gap = 0
			continue
		}
		if (match(line, /^((Returns|Threads|Order|Cost)(, )?)+  +/) ||
		    match(line, /^G[0-9] [a-z ]*\.  /)) {
			word = substr(line, 1, RLENGTH); gsub(/ +$/, "", word); gsub(/,/, " ,", word)
			listing(1); body = body ".It " word "\n"; put(substr(line, RLENGTH + 1)); gap = 0
			continue
		}
		if (items && gap) listing(0)
		paragraph(); put(line)
	}
	verbatim(0); listing(0)
}

# int hwt_f(int a, int b); in the words of mdoc.
function prototype(text,    open, name, type, i, n, part) {
	sub(/^HWT_API /, "", text); sub(/\);$/, "", text)
	open = index(text, "("); name = substr(text, 1, open - 1); type = name
	sub(/.*[ *]/, "", name); type = substr(type, 1, length(type) - length(name)); sub(/ $/, "", type)
	n = split(substr(text, open + 1), part, ", ")
	synopsis = synopsis ".Ft \"" type "\"\n.Fo " name "\n"
	for (i = 1; i <= n; i++) synopsis = synopsis ".Fa \"" part[i] "\"\n"
	synopsis = synopsis ".Fc\n"
	return name
}

# Comment and the code below it.
function flush_unit(    heading, n, i, part) {
	if (comment == "" && code == "") return
	if (code == "" && !seen) { prose(comment, 1); seen = 1; comment = ""; return }
	if (code == "") {
		heading = comment; sub(/^\n */, "", heading); sub(/\n.*/, "", heading); sub(/^\n[^\n]*/, "", comment)
		body = body ".Sh " toupper(heading) "\n"; prose(comment, 0); comment = ""
		return
	}
	sub(/^\n+/, "", code); sub(/\n+$/, "", code)
	if (code ~ /^HWT_API/) {
		n = split(code, part, "\n"); code = ""
		for (i = 1; i <= n; i++) { sub(/^[ \t]+/, "", part[i]); code = code (code ~ /,$/ ? " " : "") part[i] (part[i] ~ /;$/ ? "\n" : "") }
		n = split(code, part, "\n")
		for (i = 1; i <= n; i++) if (part[i] != "") heading = heading (heading ? " , " : "") prototype(part[i])
		body = body ".Ss " heading "\n"
		prose(comment, 0)
	} else {
		if (match(code, /typedef (struct|enum) hwt_[a-z]+/)) heading = substr(code, RSTART + 8, RLENGTH - 8)
		else if (code ~ /hwt_task\(/) heading = "hwt_task"
		sub(/^(struct|enum) /, "", heading)
		if (heading) body = body ".Ss " heading "\n"
		else gap = 1
		prose(comment, 0)
		n = split(code, part, "\n"); body = body ".Bd -literal\n"
		for (i = 1; i <= n; i++) body = body (part[i] == "" ? "" : escape(part[i])) "\n"
		body = body ".Ed\n"
	}
	comment = code = ""
}
BEGIN { body = "" }
/^#(ifndef HWT_H|define HWT_H$|include|ifdef __cplusplus|endif|if defined|else|define HWT_API)/ || /^extern "C"|^}$/ { next }
/^\/\* (SPDX|clang-format)/ { next }
/^\/\*.*\*\/$/ { flush_unit(); comment = $0; sub(/^\/\*/, "", comment); sub(/ *\*\/$/, "", comment); comment = "\n" comment; next }
/^\/\*/ { flush_unit(); inside = 1; sub(/^\/\*/, " *"); if ($0 == " *") next }
inside && /^ \*\/$/ { inside = 0; if (!seen || comment !~ /\n.*\n/) flush_unit(); next }
inside {
	line = $0; inside = line !~ / \*\/$/; sub(/ \*\/$/, "", line); sub(/^ \*/, "", line)
	comment = comment (comment == "" && !seen ? "" : "\n") line; next
}
/^#define HWT_VERSION|hwt_timeout\(\)\)$/ { next }
/^$/ { if (code ~ /;\n$|^#define/ && code !~ /\{\n/) flush_unit(); else if (code != "") code = code "\n"; next }
{ code = code $0 "\n" }
/^\};?$|^\} hwt_/ { flush_unit() }
END {
	flush_unit()
	split(date, day, "-"); split("January February March April May June July August September October November December", month, " ")
	printf ".\\\" Made by doc/man.awk from hwt.h.\n.Dd %s %d, %s\n.Dt HWT 3\n.Os\n", month[day[2] + 0], day[3], day[1]
	print ".Sh NAME\n.Nm hwt\n.Nd hashed wheel timer for multithreaded C\n.Sh LIBRARY\n.Pq libhwt, \\-lhwt"
	printf ".Sh SYNOPSIS\n.In hwt.h\n%s.Sh DESCRIPTION\n%s", synopsis, body
	print ".Sh SEE ALSO\n.Xr clock_gettime 2 ,\n.Xr poll 2 ,\n.Xr hwt_store 3 ,\n.Xr pthread_create 3"
}
