// SPDX-License-Identifier: BSD-2-Clause
// Compares the windows of cron_times with croner and with cron-parser; cron.sh.
//
// What lies further from a change of the clock than the clock was changed by must be the same: any difference fails, unless
// croner agrees with us.  In the hours of the change, where the three have rules of their own, differences are counted by kind.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
const require = createRequire(process.argv[2] + '/');
const { Cron } = require('croner');
const { CronExpressionParser } = require('cron-parser');

// Each gives a function that returns the next time, 0 if there is none.
const programs = {
	croner: (line, zone, after) => {
		const cron = keep(line + zone, () => new Cron(line, { timezone: zone, paused: true }));
		let at = new Date(after * 1000);
		return () => (at = cron.nextRun(at)) ? at.getTime() / 1000 : 0;
	},
	'cron-parser': (line, zone, after) => {
		const times = CronExpressionParser.parse(line, { tz: zone, currentDate: new Date(after * 1000) });
		return () => {
			try {
				return times.next().getTime() / 1000;
			} catch (error) {
				if (/loop limit|Invalid explicit/.test(error.message)) return 0;
				throw error;
			}
		};
	},
};
const formats = new Map(), made = new Map(), counts = {}, skipped = new Map();
let compared = 0, windows = 0, failed = 0;

// By the data of this program, which may be of another version of the tz database; null: it has no such zone.
function offset(zone, at) {
	let format = formats.get(zone);
	if (format === undefined) {
		try {
			format = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric',
				day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' });
		} catch { format = null; }
		formats.set(zone, format);
	}
	if (!format) return null;
	const part = Object.fromEntries(format.formatToParts(at * 1000).map((p) => [p.type, Number(p.value)]));
	return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000 - at;
}

function keep(key, make) {
	if (!made.has(key)) {
		if (made.size > 5000) made.clear();
		made.set(key, make());
	}
	return made.get(key);
}

function times(name, w) {
	const found = [], next = programs[name](w.line, w.zone, w.after);
	for (let at = w.after; found.length < 100;) {
		const time = next();
		if (!w.until) return [time];
		if (!time || time >= w.until) break;
		if (time <= at) return [NaN];
		found.push(at = time);
	}
	return found;
}

function judge(name, w, agreed) {
	const theirs = times(name, w), near = (s) => w.change && Math.abs(s - w.change) <= Math.abs(w.by);
	const far = (list) => list.filter((s) => !near(s)).join(' '), close = (list) => list.filter(near).join(' ');
	const [minute, hour] = w.line.split(' ');
	const note = (kind, got, wanted) => {
		const of = (counts[`${name}, ${kind}`] ??= { windows: 0, example: '' });
		of.windows++;
		of.example ||= `"${w.line}" in ${w.zone}, change at ${w.change}: ${got || 'none'} instead of ${wanted || 'none'}`;
	};
	compared += theirs.length;
	if (far(theirs) === far(w.times) && close(theirs) === close(w.times)) return true;
	if (far(theirs) === far(w.times))
		note(`${minute[0] === '*' || hour[0] === '*' ? 'wild' : 'once a day'}, ${w.by > 0 ? 'gap' : 'overlap'}`, close(theirs),
			close(w.times));
	else if (agreed && w.change) // it skips or repeats hours around the change
		note('alone, beside the hours of a change', far(theirs), far(w.times));
	else if (failed++ < 20)
		console.log(`DIFFERS ${name}: "${w.line}" in ${w.zone} after ${w.after}: ${far(theirs)} instead of ${far(w.times)}`);
	return far(theirs) === far(w.times);
}

for await (const text of createInterface({ input: process.stdin })) {
	const [zone, line, ...numbers] = text.split('\t'), [after, until, change, by, before, then, ...list] = numbers.map(Number);
	const w = { zone, line, after, until, change, by, times: list };
	if (offset(zone, after) !== before || (until && offset(zone, until) !== then) ||
		(change && (offset(zone, change - 1) !== before || offset(zone, change) !== then)) ) {
		skipped.set(zone, (skipped.get(zone) ?? 0) + 1);
		continue;
	}
	// A first time that lies near a change is compared there.
	if (!until && list[0] && offset(zone, list[0] - 30 * 3600) !== offset(zone, list[0] + 30 * 3600)) continue;
	windows++;
	let agreed = false;
	for (const name in programs) agreed = judge(name, w, agreed);
}
console.log(`${windows} windows, ${compared} times compared, ${failed} differ (tz database of node: ${process.versions.tz})`);
for (const [zone, n] of skipped) console.log(`left out, for the two tz databases differ: ${zone} in ${n} windows`);
for (const kind of Object.keys(counts).sort()) console.log(`by rule, ${kind}: ${counts[kind].windows} windows, ${counts[kind].example}`);
process.exit(failed ? 1 : 0);
