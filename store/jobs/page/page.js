// SPDX-License-Identifier: BSD-2-Clause
// The page of hwt-jobs serve.  It asks for JSON each two seconds while it is visible, builds what it shows from that, and
// changes only what differs, so that focus, selection and scrolling stay.  All text goes into text nodes.
"use strict";

const EVERY_MS = 2000, LATE_US = 10e6, PAGE_KEY = "hwt-jobs-page";
const byId = (id) => document.getElementById(id);
let about = null, past = null, pastAt = 0, skewMs = 0, timer = 0, lostAt = 0, turn = 0, pages = 1, dataAs = "", found = null;

/*
 * Elements
 */

// h("td.number", {title: "x"}, child, "text", ...): children that are null or false are left out.
function h(tag, attributes, ...children) {
	const [name, ...classes] = tag.split(".");
	const svg = name === "svg" || name === "path";
	const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
	if (classes.length)
		made.setAttribute("class", classes.join(" "));
	for (const [key, value] of Object.entries(attributes || {}))
		if (value !== null && value !== false && value !== undefined)
			made.setAttribute(key, value === true ? "" : value);
	for (const child of children.flat(3))
		if (child !== null && child !== false && child !== undefined)
			made.append(child);
	return made;
}

// Makes `old` look as `made` does.  What a person has typed stays.
function morph(old, made) {
	for (const {name} of [...old.attributes])
		if (!made.hasAttribute(name) && name !== "open")
			old.removeAttribute(name);
	for (const {name, value} of made.attributes)
		if (old.getAttribute(name) !== value)
			old.setAttribute(name, value);
	morphChildren(old, made);
}

function morphChildren(old, made) {
	const wanted = [...made.childNodes];
	let at = old.firstChild;
	for (const child of wanted) {
		if (at && at.nodeName === child.nodeName && keyOf(at) === keyOf(child)) {
			if (at.nodeType === Node.TEXT_NODE) {
				if (at.data !== child.data)
					at.data = child.data;
			} else {
				morph(at, child);
			}
			at = at.nextSibling;
		} else {
			const found = keyOf(child) && [...old.children].find((is) => keyOf(is) === keyOf(child));
			old.insertBefore(found || child, at);
			if (found)
				morph(found, child);
		}
	}
	while (at) {
		const next = at.nextSibling;
		at.remove();
		at = next;
	}
}

function keyOf(node) {
	return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

// Characters that cannot be seen, that turn the direction of the text beside them, or that look like a space are written
// as their numbers; in names also spaces that HTML would leave out.
const ODD = /[\p{C}\p{DI}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}/u, SPACE = /^ | (?= )| $/g;
const number16 = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

function plain(text) {
	return [...text.replace(SPACE, "<U+0020>")].map((c) => ODD.test(c) ? "<" + number16(c) + ">" : c).join("");
}

function shown(text, lines) {
	const parts = [], spaces = new Set(lines ? [] : [...text.matchAll(SPACE)].map((found) => found.index));
	let run = "", at = 0;
	for (const c of text) {
		const marked = ODD.test(c) ? !lines || (c !== "\n" && c !== "\t") : spaces.has(at);
		at += c.length;
		if (!marked) {
			run += c;
			continue;
		}
		if (parts.length >= (lines ? 1000 : 40)) { // elements are slow, and a list has many texts
			run += "<" + number16(c) + ">";
			continue;
		}
		parts.push(...(run ? [run] : []), h("span.odd", null, number16(c)));
		run = "";
	}
	return h("bdi", null, parts, run);
}

/*
 * Words
 */

const nowUs = () => (Date.now() + skewMs) * 1000;

function duration(us) {
	const s = Math.abs(us) / 1e6;
	for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]])
		if (s >= 2 * size)
			return Math.floor(s / size) + " " + name;
	return (s < 10 && s > 0.05 ? s.toFixed(1) : Math.round(s)) + " s";
}

// As clocks and calendars here have it: 2026-11-29 01:20:07.
function local(ms) {
	const at = new Date(ms), two = (n) => String(n).padStart(2, "0");
	return [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-") + " " +
		[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

function distance(us) {
	const apart = us - nowUs();
	return Math.abs(apart) < 1e6 ? "now" : apart > 0 ? "in " + duration(apart) : duration(apart) + " ago";
}

function when(us) {
	return us ? h("time", {title: local(us / 1000)}, distance(us)) : h("span.dim", null, "-");
}

// Of a number within a minute.
const often = (n) => n < 60 ? n + " a minute" : (n / 60).toLocaleString("en", {maximumFractionDigits: n < 6000 ? 1 : 0}) + " a second";
const atLeast = (n, more) => n.toLocaleString("en") + (more ? "+" : "");
const failedOf = (kind) => kind.failed > 1000 ? "1,000+" : kind.failed.toLocaleString("en");
const many = (n, word) => n + " " + word + (n === 1 || n === "1" ? "" : "s");

function limitsText(limits) {
	if (!limits)
		return "";
	const parts = [];
	if (limits.running)
		parts.push(limits.running + " at once");
	if (limits.start_every_ns)
		parts.push("a start each " + duration(limits.start_every_ns / 1000) + ", burst " + (limits.burst || 1));
	return parts.join(", ");
}

// Why a timeout waits, and what helps.
const REASONS = {
	thread: ["all threads are busy", "More processes, more threads or shorter tasks help."],
	cap: ["as many of a group run as may", "Raise the limit of the group, or wait for its runs."],
	rate: ["a group may not start more yet", "Raise the limit of the group, or wait."],
	turn: ["other groups go first", "More processes, more threads or shorter tasks help."],
	pause: ["a group is paused", "Resume the group."],
	elsewhere: ["runs of a dead process still count", "Look for what locks the rows of these runs."],
	rules: ["new rules are being read", "Look for what locks the tables of groups and shards."],
	read: ["its process has not read it yet", "Look for locks and old transactions in the database; a backlog takes its time."],
	zone: ["its time zone cannot be read", "Install tzdata where its process runs."],
	row: ["rows are locked, damaged or refused", "Look for what locks them; the warnings of the process say more."],
	lease: ["its process is silent, or gives it away", "Look whether its processes and their machines run, and at their warnings."],
	database: ["its process has no connection that can write", "Its warnings say why: rights, a full disk; on PostgreSQL also a standby, default_transaction_read_only."],
	nobody: ["no process runs it", "Start a process that runs it. If one should run, its warnings, or hwt-jobs by its URL, say why."],
};

// Of the oldest of a kind: as its processes told when they renewed their leases, or the database does.
function reasonOf(kind) {
	const waiting = Object.entries(kind.waiting || {}).filter(([word]) => word !== "starts");
	waiting.sort((a, b) => b[1].oldest_ns - a[1].oldest_ns);
	if (!waiting.length)
		return ["", ""];
	const [word] = waiting[0], told = word !== "nobody" && word !== "lease", [why, cure] = REASONS[word] || [word];
	return [why + (told ? ", unchanged for " + duration(kind.waiting_age_ns / 1000) : ""), cure];
}

// [how bad, class, words, what helps]: what an operator has to know of a kind first.
function verdictOf(kind) {
	const due = kind.overdue_us > 0, [why, cure] = reasonOf(kind);
	if (due && kind.processes === 0)
		return [4, "stopped", "stands still: no process runs it" + (kind.paused ? ", and it is paused" : ""), REASONS.nobody[1]];
	if (due && kind.paused)
		return [4, "paused", "stands still: it is paused", about.changes ? "" : "hwt-jobs resume goes on with it."];
	if (kind.overdue_us > LATE_US)
		return [3, "late", "is late" + (why ? ": " + why
			: kind.paused_groups ? ", and " + many(kind.paused_groups, "group") + " paused" : ""), cure];
	if (kind.failed > 0)
		return [2, "failed", "has failed timeouts", "Read the errors; once their cause is mended, retry them."];
	if (kind.paused)
		return [1, "paused", "is paused"];
	return [0, "fine", kind.processes ? "runs" : "no process"];
}

/*
 * Asking
 */

class Failure extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

async function ask(path, options) {
	const stop = new AbortController(), wait = setTimeout(() => stop.abort(), 15000);
	let response, text;
	try {
		response = await fetch(path, {...options, signal: stop.signal, cache: "no-store"});
		text = await response.text();
	} catch (error) {
		throw new Failure(0, stop.signal.aborted ? "no answer within 15 seconds" : "no connection");
	} finally {
		clearTimeout(wait);
	}
	if (Date.parse(response.headers.get("Date")))
		skewMs = Date.parse(response.headers.get("Date")) + 500 - Date.now();
	if (Math.abs(skewMs) < 2000)
		skewMs = 0;
	// An id may have more digits than a number of JavaScript.  Inside of a string the quotes are escaped.
	const json = JSON.parse(text.replace(/"id": (\d+)/g, '"id": "$1"') || "{}");
	if (!response.ok)
		throw new Failure(response.status, json.error || "status " + response.status);
	return json;
}

function query(path, values) {
	const filled = Object.entries(values).filter(([, value]) => value);
	return path + (filled.length ? "?" + new URLSearchParams(filled) : "");
}

async function change(name, members) {
	const answer = await ask("api/" + name, {
		method: "POST",
		headers: {"Content-Type": "application/json", "X-Hwt-Page": localStorage.getItem(PAGE_KEY) || ""},
		body: JSON.stringify(members),
	});
	return Object.entries(answer).map(([what, n]) => what + " " + n).join(", ");
}

/*
 * Pages: "#/", "#/kind/NAME?state=failed&group=G&key=PREFIX", "#/one/ID"
 */

function route() {
	const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
	const [page, ...rest] = path.split("/").map((part) => decodeURIComponent(part));
	const filter = Object.fromEntries([...new URLSearchParams(search || "")].filter(([word]) => ["state", "group", "key"].includes(word)));
	return {page: page || "kinds", name: rest.join("/"), filter};
}

const linkKind = (kind, filter) => query("#/kind/" + encodeURIComponent(kind), filter || {});

function chart(values, style, label) {
	const known = values.filter((value) => value !== null), most = Math.max(1, ...known), n = values.length - 1;
	let line = "", area = "", pen = false, last = 0;
	values.forEach((value, i) => {
		if (value === null) {
			area += pen ? `L${last},25 Z ` : "";
			pen = false;
			return;
		}
		const x = last = (i * 150 / n).toFixed(1), y = (24 - 21 * value / most).toFixed(1);
		line += `${pen ? "L" : "M"}${x},${y} `;
		area += pen ? `L${x},${y} ` : `M${x},25 L${x},${y} `;
		pen = true;
	});
	return h("svg." + style, {viewBox: "0 0 150 26", preserveAspectRatio: "none", role: "img", "aria-label": label},
		h("path.base", {d: "M0,25 L150,25"}), h("path.area", {d: area + (pen ? `L${last},25 Z` : "")}),
		h("path.line", {d: line}));
}

function charts(kind) {
	if (!past || !Object.hasOwn(past.kinds, kind.kind))
		return [h("td.wide.none"), h("td.wide.none")];
	const is = past.kinds[kind.kind], starts = Math.max(0, ...is.started_minute), most = Math.max(0, ...is.overdue_us);
	return [h("td.wide", {"data-label": "starts, ten minutes"}, starts === 0 ? h("span.dim", null, "none")
		: [chart(is.started_minute, "starts", "starts in the last ten minutes: at most " + often(starts)),
			h("span.dim", null, "now " + often(kind.started_minute))]),
	h("td.wide", {"data-label": "late, ten minutes"}, most < 1e6 ? h("span.dim", null, "on time")
		: [chart(is.overdue_us, "late", "late in the last ten minutes: at most " + duration(most)),
			h("span.dim", null, "at most " + duration(most))])];
}

function kindRow(kind) {
	const [, name, words] = verdictOf(kind);
	const colour = {stopped: "red", late: "amber", paused: "amber", failed: "dim", fine: "dim"}[name];
	const groups = [kind.paused_groups && many(kind.paused_groups, "group") + " paused",
		kind.limited_groups && many(kind.limited_groups, "group") + " with limits"].filter(Boolean).join(", ");
	return h("tr", {"data-key": "kind " + kind.kind},
		h("th.name", {scope: "row", title: plain(kind.kind)}, h("a", {href: linkKind(kind.kind)}, shown(kind.kind))),
		h("td.wide", null, h("span." + colour, null, words.replace("stands still: ", "").replace("has failed timeouts", kind.processes ? "runs" : "no process")),
			groups && h("div.dim", null, groups)),
		h("td.number", {"data-label": "due"}, kind.due ? h("b", null, atLeast(kind.due, kind.due_more)) : "0"),
		h("td.time", {"data-label": "oldest due"},
			h("span." + (kind.overdue_us > LATE_US ? "red" : "plain"), null, when(Date.parse(kind.oldest_due) * 1000 || 0))),
		h("td.number", {"data-label": "failed"}, kind.failed
			? h("a.red", {href: linkKind(kind.kind, {state: "failed"})}, failedOf(kind)) : "0"),
		h("td.number", {"data-label": "running"}, atLeast(kind.running || 0, false)),
		h("td.number", {"data-label": "processes"}, kind.processes ? String(kind.processes) : h("span.red", null, "0")),
		charts(kind));
}

// The worst first.
function verdicts(kinds) {
	const bad = kinds.map((kind) => [kind, ...verdictOf(kind)]).filter(([, how]) => how > 0);
	const count = bad.filter(([, how]) => how > 1).length;
	document.title = (count ? "(" + count + ") " : "") + "hwt-jobs";
	if (bad.length === 0)
		return h("ul.verdict", null, h("li.fine", null, kinds.length ? "Nothing stands still, and nothing has failed."
			: "There are no kinds yet: nothing was put into this store."));
	return h("ul.verdict", null, bad.slice(0, 8).map(([kind, how, name, words, cure]) => h("li." + name, {"data-key": kind.kind},
		h("b", null, h("a", {href: linkKind(kind.kind, how === 2 ? {state: "failed"} : {})}, shown(kind.kind))),
		how === 2 ? ": " : " " + words + ". ",
		kind.overdue_us > 0 && atLeast(kind.due || 1, kind.due_more) + " due, the oldest for " + duration(kind.overdue_us) + ". ",
		kind.failed > 0 && h("a", {href: linkKind(kind.kind, {state: "failed"})}, failedOf(kind) + " failed"), kind.failed > 0 && ". ", cure && cure + " ",
		about.changes && kind.paused && act("Resume", "resume", {kind: kind.kind}))),
	bad.length > 8 && h("li", null, "and " + (bad.length - 8) + " more below"));
}

async function drawKinds() {
	const kinds = await ask("api/kinds");
	if (!past || Date.now() - pastAt > 5000) {
		past = await ask("api/history");
		pastAt = Date.now();
	}
	kinds.sort((a, b) => verdictOf(b)[0] - verdictOf(a)[0] || (b.overdue_us > LATE_US ? b.overdue_us : 0) - (a.overdue_us > LATE_US ? a.overdue_us : 0));
	return h("main", null, verdicts(kinds), kinds.length > 0 && h("div.scroll.cards", null, h("table", null,
		h("thead", null, h("tr", null, ["Kind", "State"].map((text) => h("th", {scope: "col"}, text)),
			h("th.number", {scope: "col"}, "Due"), h("th", {scope: "col"}, "Oldest due"),
			["Failed", "Running", "Processes"].map((text) => h("th.number", {scope: "col"}, text)),
			["Starts, ten minutes", "Late, ten minutes"].map((text) => h("th", {scope: "col"}, text)))),
		h("tbody", null, kinds.map(kindRow)))));
}

function act(label, name, members, style) {
	return h("button", {type: "button", class: style || null, "data-act": JSON.stringify([name, members])}, label);
}

// No change takes the beginning of a key, so under that filter the rows have no buttons together.
function kindActs(kind, filter) {
	if (!about.changes)
		return null;
	const of = {kind: kind.kind, ...(filter.group ? {group: filter.group} : {})};
	const all = {...of, all: true, ...(filter.state ? {state: filter.state} : {})}, rows = !filter.key;
	return h("div.acts", null, filter.group ? [act("Pause this group", "pause", of), act("Resume this group", "resume", of)]
		: kind.paused ? act("Resume", "resume", of, "main") : act("Pause", "pause", of),
	act("Limit", "limit", of), rows && kind.failed > 0 && act("Retry what has failed", "retry", {...of, all: true}, "main"),
	rows && filter.state !== "running" && act("Move " + (filter.state || "all"), "move", {...all, state: filter.state || "pending"}),
	rows && act("Cancel " + (filter.state || "all"), "cancel", all, "danger"));
}

function groupTable(kind, groups) {
	return groups.length > 0 && [h("h2", null, "Groups with rules of their own"), h("div.scroll", null, h("table", null,
		h("tbody", null, groups.slice(0, 100).map((is) => h("tr", {"data-key": "group " + is.group},
			h("th.name", {scope: "row", title: plain(is.group)}, h("a", {href: linkKind(kind, {group: is.group})}, shown(is.group))),
			h("td", null, is.paused && h("span.amber", null, "paused "),
				is.limits ? limitsText(is.limits) || "no limits" : ""),
			h("td.number", null, about.changes && (is.paused ? act("Resume", "resume", {kind, group: is.group})
				: act("Pause", "pause", {kind, group: is.group})))))))),
	groups.length > 100 && h("p.dim", null, "and " + (groups.length - 100) + " more groups")];
}

function rowOf(info) {
	const late = info.state === "pending" && info.due_us < nowUs() - LATE_US && info.due_us > 0;
	const colour = {failed: "red", running: "green", pending: "plain"}[info.state];
	return h("tr", {"data-key": info.id},
		h("td", null, h("a", {href: "#/one/" + info.id}, info.id)),
		h("td", null, h("span." + colour, null, info.state)),
		h("td.time", {"data-label": "due"}, h("span." + (late ? "red" : "plain"), null, when(info.due_us))),
		h(info.group ? "td.name" : "td.name.none", {"data-label": "group", title: plain(info.group || "")}, shown(info.group || "")),
		h(info.key ? "td.name" : "td.name.none", {"data-label": "key", title: plain(info.key || "")}, shown(info.key || "")),
		h("td.number", {"data-label": "attempt"}, String(info.attempt)),
		h("td.error.wide", {title: plain(info.error || "")}, shown(info.error || repeats(info))));
}

function repeats(info) {
	return info.schedule ? info.schedule + " " + (info.zone || "") : info.period_ns ? "every " + duration(info.period_ns / 1000) : "";
}

function filterForm(filter) {
	const option = (value, text) => h("option", {value, selected: (filter.state || "") === value}, text);
	return h("form", {"data-form": "filter", role: "search"},
		h("label", null, "State", h("select", {name: "state"}, option("", "any"), option("pending", "pending"),
			option("running", "running"), option("failed", "failed"))),
		h("label", null, "Group", h("input", {name: "group", value: filter.group || "", maxlength: 255, autocomplete: "off"})),
		h("label", null, "Key begins with", h("input", {name: "key", value: filter.key || "", maxlength: 255, autocomplete: "off"})),
		h("button.main", {type: "submit"}, "Show"),
		(filter.state || filter.group || filter.key) && h("a", {href: linkKind(route().name)}, "all"));
}

// The pages that were asked for so far.  Each redraw reads them again, but for a key, which no index has, each 20 s.
async function readList(kind, filter) {
	const rows = [], of = JSON.stringify([kind, filter, pages]);
	if (filter.key && found && found.of === of && Date.now() - found.at < 20000)
		return [found.rows, found.next];
	let next = "", n = 0;
	do {
		const part = await ask(query("api/list", {...filter, kind, after: next, limit: 100, data: "no"}));
		rows.push(...part.list);
		next = part.next;
		n++;
	} while (next && n < pages);
	found = {of, rows, next, at: Date.now()};
	return [rows, next];
}

async function drawKind({name, filter}) {
	const [kind] = await ask(query("api/kinds", {kind: name}));
	const [groups, [rows, next]] = await Promise.all([ask(query("api/groups", {kind: name})), readList(name, filter)]);
	const [, style, words, cure] = verdictOf(kind), limits = limitsText(kind.each_group);
	document.title = plain(name) + " - hwt-jobs";
	return h("main", null, h("h1", null, shown(name)),
		h("ul.verdict", null, h("li." + style, null, style !== "failed" && words.charAt(0).toUpperCase() + words.slice(1) + ". ",
			kind.overdue_us > 0 && atLeast(kind.due || 1, kind.due_more) + " due, the oldest for " + duration(kind.overdue_us) + ". ",
			kind.failed > 0 && failedOf(kind) + " failed. ", cure && cure + " ", atLeast(kind.running || 0, false) + " running, ",
			kind.processes + (kind.processes === 1 ? " process" : " processes") + ", " + kind.mode + ". ", limits && "Each group: " + limits + ".")),
		kindActs(kind, filter), groupTable(name, groups), h("h2", null, "Timeouts in order of time"), filterForm(filter),
		rows.length === 0 ? h("p.dim", null, next ? "None among those looked at so far." : "None.")
			: h("div.scroll.cards", null, h("table", null, h("thead", null, h("tr", null,
				["Id", "State", "Due", "Group", "Key"].map((text) => h("th", {scope: "col"}, text)), h("th.number", {scope: "col"}, "Attempt"),
				h("th", {scope: "col"}, "Error, or when again"))), h("tbody", null, rows.map(rowOf)))),
		next && h("div.acts", null, h("button", {type: "button", "data-more": "1"}, rows.length ? "More" : "Look further")));
}

function bytesOf(info) {
	if (info.data_base64 !== undefined)
		return Uint8Array.from(atob(info.data_base64), (c) => c.charCodeAt(0));
	return new TextEncoder().encode(info.data || "");
}

function hex(bytes) {
	const lines = [];
	for (let at = 0; at < bytes.length && at < 65536; at += 16) {
		const line = [...bytes.slice(at, at + 16)];
		lines.push(at.toString(16).padStart(6, "0") + "  " + line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(49) +
			line.map((byte) => byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".").join(""));
	}
	return lines.join("\n") + (bytes.length > 65536 ? "\n..." : "");
}

// Indented, each value may take a line as long as its depth.  Brackets in strings are none, and in JSON each string ends.
function jsonOf(text) {
	let depth = 0, deepest = 1;
	try {
		const value = JSON.parse(text);
		for (const c of text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, ""))
			deepest = Math.max(deepest, depth += "[{".includes(c) - "]}".includes(c));
		return deepest * text.length > 4e6 ? null : JSON.stringify(value, null, 2);
	} catch (error) {
		return null;
	}
}

function dataOf(info) {
	const text = info.data_base64 === undefined ? info.data : null, json = text ? jsonOf(text) : null;
	const ways = [json !== null && "JSON", text !== null && "text", "hex"].filter(Boolean);
	const way = ways.includes(dataAs) ? dataAs : ways[0];
	const whole = way === "JSON" ? json : text, most = 16384;
	const body = way === "hex" ? hex(bytesOf(info)) : whole.length > most ? whole.slice(0, most) + "\n..." : whole;
	return [h("h2", null, "Data, " + many(info.len.toLocaleString("en"), "byte")),
		info.len > 0 && h("div.acts", null, ways.map((is) => h("button", {type: "button", "data-way": is, "aria-pressed": String(is === way)}, is))),
		info.len > 0 && h("pre", {tabindex: 0}, shown(body, true))];
}

async function drawOne({name}) {
	const info = await ask(query("api/show", {id: name}));
	const line = (term, value) => value && [h("dt", null, term), h("dd", null, value)];
	document.title = name + " - hwt-jobs";
	return h("main", null, h("h1", null, h("a", {href: linkKind(info.kind)}, shown(info.kind)), " " + info.id),
		about.changes && h("div.acts", null, info.state === "failed" && act("Retry", "retry", {id: info.id}, "main"),
			info.state !== "running" && act("Move", "move", {id: info.id, state: info.state}), act("Cancel", "cancel", {id: info.id}, "danger")),
		h("dl", null,
			line("State", h("span", {class: {failed: "red", running: "green"}[info.state] || null}, info.state + ", attempt " + info.attempt)),
			line("Error", info.error && h("span.red", null, shown(info.error))),
			line("Due", [when(info.due_us), " ", h("span.dim", null, local(info.due_us / 1000))]),
			line("Repeats", repeats(info) && shown(repeats(info))), line("Group", info.group && h("a", {href: linkKind(info.kind, {group: info.group})}, shown(info.group))),
			line("Key", info.key && shown(info.key)), line("Priority", info.priority !== 0 && String(info.priority)), line("Process", info.owner && shown(info.owner))),
		dataOf(info));
}

function show(made) {
	morph(byId("main"), Object.assign(made, {id: "main", tabIndex: -1}));
}

function drawLogin(text) {
	show(h("main", null, h("form.login", {"data-form": "login"},
		h("label", null, "The token, which hwt-jobs serve has printed behind #, or which is in its file",
			h("input", {name: "token", type: "password", autocomplete: "off", autofocus: true, required: true})),
		h("button.main", {type: "submit"}, "Look"), h("p.red", {role: "alert"}, text || ""))));
	about = null;
}

/*
 * Changes: each asks first, and says what it did
 */

const QUESTIONS = {
	cancel: "Cancel", retry: "Retry", move: "Move", pause: "Pause", resume: "Resume", limit: "Limit",
};

function target(members) {
	if (members.id)
		return ["timeout " + members.id];
	const words = members.all ? ["all ", (members.state || "").replace(",", " and "), members.state ? " timeouts of " : "timeouts of "] : [];
	return [...words, shown(members.kind), members.group ? [", group ", shown(members.group)] : ""];
}

const EXPLAINED = {
	cancel: "They end, and do not start. What has failed is removed. This cannot be undone.",
	retry: "They start again now, with their attempts counted from 1.",
	pause: "Nothing more of it begins until it is resumed. What runs goes on.",
	resume: "What is due begins at once.",
};

function fieldsOf(name) {
	if (name === "move")
		return h("label", null, "When: 90s, 2h30m, now, 18:00, tomorrow 9:00, 2026-12-01T10:00", h("input", {name: "at", required: true, autocomplete: "off"}));
	if (name !== "limit")
		return null;
	return [h("label", null, "Runs at once, in all processes together; 0: no limit", h("input", {name: "running", inputmode: "numeric"})),
		h("label", null, "No more than one start in: 200ms, 2s", h("input", {name: "every", autocomplete: "off"})),
		h("label", null, "So many at once after a rest", h("input", {name: "burst", inputmode: "numeric"})),
		h("p.dim", null, "All empty: the limits go.")];
}

function openDialog(name, members) {
	const dialog = byId("dialog");
	dialog.replaceChildren(h("form", {"data-form": "change", "data-act": JSON.stringify([name, members])},
		h("h2", {id: "question"}, QUESTIONS[name] + " ", target(members), "?"), h("p", null, EXPLAINED[name]), fieldsOf(name),
		h("p.red", {role: "alert", id: "refused"}),
		h("div.acts", null, h("button", {type: "button", "data-close": "1"}, "Back"),
			h("button." + (name === "cancel" ? "danger" : "main"), {type: "submit"}, QUESTIONS[name]))));
	dialog.showModal();
}

async function makeChange(form) {
	const [name, members] = JSON.parse(form.dataset.act);
	for (const [key, value] of new FormData(form))
		if (value.trim())
			members[key] = value.trim();
	if (name === "limit" && !members.running && !members.every && !members.burst)
		members.unset = true;
	const buttons = form.querySelectorAll("button");
	buttons.forEach((button) => { button.disabled = true; });
	try {
		const done = await change(name, members);
		byId("dialog").close();
		byId("done").textContent = done;
		byId("done").hidden = false;
		setTimeout(() => { byId("done").hidden = true; }, 8000);
		found = null;
		draw();
	} catch (error) {
		byId("refused").textContent = error.status === 0
			? "The answer was lost: look whether it was done before you do it again. (" + error.message + ")" : plain(error.message);
		buttons.forEach((button) => { button.disabled = false; });
	}
}

/*
 * The loop
 */

const VIEWS = {kinds: drawKinds, kind: drawKind, one: drawOne};

function say(error) {
	const main = byId("main");
	if (error && error.status === 401) {
		lostAt = 0;
		drawLogin(sessionStorage.getItem("hwt-jobs-was") ? "The session is over." : "");
		byId("lost").hidden = true;
		main.classList.remove("old");
		return;
	}
	const gone = error && error.status >= 400 && error.status < 500;
	lostAt = error && !gone ? lostAt || Date.now() : 0;
	main.classList.toggle("old", Boolean(lostAt));
	byId("lost").hidden = !error;
	if (error)
		byId("lost").textContent = gone ? plain(error.message)
			: (error.status ? "The database: " + plain(error.message) : "The server does not answer: " + error.message) +
				", since " + local(lostAt).slice(11) + ". What is below is old. Trying again each two seconds.";
	else
		byId("state").textContent = "as of " + local(Date.now()).slice(11);
}

async function draw() {
	const mine = ++turn;
	clearTimeout(timer);
	try {
		if (!about) {
			about = await ask("api/about");
			byId("where").textContent = plain(about.database) + (about.schema === "hwt" ? "" : ", " + about.schema) +
				(about.changes ? "" : " (only looks)");
			sessionStorage.setItem("hwt-jobs-was", "1");
		}
		const is = route(), made = await (Object.hasOwn(VIEWS, is.page) ? VIEWS[is.page] : drawKinds)(is);
		if (mine !== turn)
			return;
		show(made);
		say(null);
	} catch (error) {
		if (mine !== turn)
			return;
		say(error instanceof Failure ? error : new Failure(400, "this page has a fault: " + error));
	}
	if (lostAt || (!document.hidden && about !== null))
		timer = setTimeout(draw, EVERY_MS);
}

// The token is not kept: whoever has this port after the server would be sent it.
async function logIn(token) {
	const answer = await ask("login", {method: "POST", body: new URLSearchParams({token})});
	localStorage.setItem(PAGE_KEY, answer.page);
}

document.addEventListener("click", (event) => {
	const button = event.target.closest("button");
	if (!button || button.type === "submit")
		return;
	if (button.dataset.act)
		openDialog(...JSON.parse(button.dataset.act));
	else if (button.dataset.close)
		byId("dialog").close();
	else if (button.dataset.way)
		dataAs = button.dataset.way;
	else if (button.dataset.more)
		pages++;
	if (button.dataset.way || button.dataset.more)
		draw();
});

document.addEventListener("submit", async (event) => {
	const form = event.target, values = Object.fromEntries(new FormData(form));
	event.preventDefault();
	if (form.dataset.form === "filter") {
		location.hash = linkKind(route().name, values);
	} else if (form.dataset.form === "change") {
		makeChange(form);
	} else {
		try {
			await logIn(values.token);
			draw();
		} catch (error) {
			drawLogin(error.message);
		}
	}
});

window.addEventListener("hashchange", () => {
	pages = 1;
	byId("main").replaceChildren();
	draw().then(() => {
		byId("main").focus({preventScroll: true});
		window.scrollTo(0, 0);
	});
});
document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(timer) : draw());
window.addEventListener("online", () => draw());

(async () => {
	const token = location.hash.slice(1);
	if (token && !token.startsWith("/")) {
		window.history.replaceState(null, "", location.pathname + "#/");
		try {
			await logIn(decodeURIComponent(token));
		} catch (error) {
			if (error.status === 401)
				return drawLogin(error.message);
		}
	}
	draw();
})();
