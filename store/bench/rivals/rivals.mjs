// SPDX-License-Identifier: BSD-2-Clause
// Measures what people use instead: one subject, one scenario, one round.
//
//     node rivals.mjs SUBJECT SCENARIO [N]        SUBJECT: graphile | pgboss | bullmq | bullmqpg | beanstalkd
//
//     late           N put ahead, 1000 a second at random times: lateness of the starts
//     lives          N put by 500, due at once, which another process runs: jobs/s to the last put, to the last end
//     idle           N are due in ten days, a worker is started: statements and processor time a second
//     kill           a worker is killed while it runs a job: how long until another worker starts it
//     kill_shortest  the same with the shortest setting there is
//     kills          N put ahead, 200 a second, each a task of 20 ms, two workers; about each second one is killed and
//                    another one started, KILLS times: lost, kept back, begun and done more than once
//     groups_capped  lives of 100 groups, four times: without a cap, twice with one that does not bind, without
//     groups_cap     N of ten groups are due, each a task of 20 ms, and three of a group may run at once; two workers, for
//                    RIVAL_SECONDS: starts that made three, and starts beside three others
//     groups_flood   N of one group are due, and for RIVAL_SECONDS 100 a second of another group: lateness of these
//     groups_rate    N are due, and 100 a second may start, for RIVAL_SECONDS: starts a second, and the most in one second
//
// PGURL, REDIS_PORT, BEANSTALKD_PORT say where the servers are; in idle SERVER_PID, whose processor time counts, and
// PGLOG, where PostgreSQL logs all statements.
// Output: lines FIGURE UNIT VALUE; "# ..." says what cannot be compared.  Exit status 1: lost, twice or early (where
// nothing is killed).
//
// Each is set up as its manual recommends for such a load; where two settings exclude each other, `late` has that for
// short waits and `lives` that for throughput.  A worker is a process of its own, as the others' adders are.
import { fork } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { BATCH, CAP, FLOOD_CAP, GROUPS, PER_S, now, scenario, subjects } from './subjects.mjs';

const [subject, , count] = process.argv.slice(2);
const isWorker = process.env.RIVAL_WORKER !== undefined;
const RATE = 1000, AHEAD_MS = 3000, FAR_MS = 864e6;
const WAIT_MS = { kill: 70000, kill_shortest: 30000 };
const KILLS = Number(process.env.KILLS ?? 20), KILLS_RATE = 200, TASK_MS = 20;
const SECONDS = Number(process.env.RIVAL_SECONDS ?? 8);
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const figure = (name, unit, value) => console.log(`${name} ${unit} ${Number(value.toPrecision(6))}`);
const note = text => console.log(`# ${text}`);

/*
 * A worker process: tells of its runs by [n, when it started]; one that will be killed writes to RIVAL_LOG, from which
 * the kill takes nothing.
 */

async function workerMain() {
	const it = await subjects[subject]();
	let starts = [];
	const holds = process.env.RIVAL_WORKER === 'holds';
	const log = process.env.RIVAL_LOG && openSync(process.env.RIVAL_LOG, 'a');
	const tell = () => {
		if (starts.length > 0)
			process.send({ starts });
		starts = [];
	};
	setInterval(tell, 20);
	await it.work(async n => {
		if (log) {
			writeSync(log, `begun ${n}\n`);
			await sleep(TASK_MS);
			writeSync(log, `done ${n}\n`);
			return;
		}
		starts.push([n, now()]);
		if (holds) {
			tell();
			await sleep(1e9);
		}
	});
	process.send({ ready: true });
	process.on('disconnect', () => process.exit(0));
}

function startWorker(kind, onStarts) {
	return new Promise((resolve, reject) => {
		const child = fork(new URL(import.meta.url).pathname, process.argv.slice(2), {
			env: { ...process.env, RIVAL_WORKER: kind },
		});
		child.on('message', message => message.ready ? resolve(child) : onStarts(message.starts));
		child.on('exit', code => code && reject(new Error(`the worker ended with ${code}`)));
	});
}

async function stopWorker(child) {
	const gone = new Promise(resolve => child.on('exit', resolve));
	child.kill('SIGKILL');
	await gone;
}

async function until(what, ms, done) {
	const giveUp = now() + ms;
	while (!await done()) {
		if (now() > giveUp)
			throw new Error(`${what}: not within ${ms / 1000} s`);
		await sleep(5);
	}
}

async function addAll(it, n, atMs, group = i => GROUPS ? `g${i % GROUPS}` : undefined) {
	for (let from = 0; from < n; from += BATCH)
		await it.add(Array.from({ length: Math.min(BATCH, n - from) },
			(_, i) => ({ n: from + i, atMs: atMs(from + i), group: group(from + i) })));
}

// N due at once, which another process runs: jobs a second to the last put, to the last end.
async function live(it, n) {
	const seen = new Set();
	let twice = 0;
	const worker = await startWorker('runs', starts => {
		for (const [i] of starts) {
			twice += seen.has(i);
			seen.add(i);
		}
	});
	const before = now();
	await addAll(it, n, () => 0);
	const adds = n * 1000 / (now() - before);
	await until('lives', 120000, () => seen.size === n);
	await until('lives', 10000, async () => await it.left() === 0);
	const lives = n * 1000 / (now() - before);
	await stopWorker(worker);
	if (twice > 0)
		throw new Error(`${twice} ran twice`);
	return { adds, lives };
}

const percentile = (sorted, p) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))];

// Processor time so far, in seconds, of a process and its children, also of those that have ended.
function processorTime(pid) {
	const tick = 100;
	const fields = path => readFileSync(path, 'latin1').replace(/^.*\) /s, '').split(' ');
	let sum = 0;
	for (const entry of readdirSync('/proc'))
		try {
			const is = /^\d+$/.test(entry) && fields(`/proc/${entry}/stat`);
			if (is && (Number(entry) === pid || Number(is[1]) === pid))
				sum += Number(is[11]) + Number(is[12]);
			if (is && Number(entry) === pid)
				sum += Number(is[13]) + Number(is[14]);
		} catch { /* it has just ended */ }
	return sum / tick;
}

/*
 * Scenarios
 */

const scenarios = {
	async late(it, n) {
		const startMs = now() + AHEAD_MS, dueMs = [], startedMs = [];
		let twice = 0, started = 0;
		for (let i = 0; i < n; i++)
			dueMs.push(startMs + Math.random() * n * 1000 / RATE);
		const worker = await startWorker('runs', starts => {
			for (const [i, at] of starts) {
				twice += startedMs[i] !== undefined;
				started += startedMs[i] === undefined;
				startedMs[i] = at;
			}
		});
		await addAll(it, n, i => dueMs[i]);
		if (now() > startMs)
			note('it took longer to add them than they were put ahead');
		await until('late', AHEAD_MS + n * 1000 / RATE + 30000, () => started === n);
		await until('late', 10000, async () => await it.left() === 0);
		await stopWorker(worker);
		// A job can be early by less than a millisecond: they count in milliseconds.
		const late = startedMs.map((at, i) => at - dueMs[i]).sort((a, b) => a - b);
		if (twice > 0 || late[0] < -2)
			throw new Error(`${twice} ran twice, the earliest ${-late[0]} ms too early`);
		figure('late_p50', 'ms', percentile(late, 0.5));
		figure('late_p99', 'ms', percentile(late, 0.99));
		figure('late_max', 'ms', late[n - 1]);
	},

	async lives(it, n) {
		const { adds, lives } = await live(it, n);
		figure('adds', '1/s', adds);
		figure('lives', '1/s', lives);
	},

	async idle(it, n) {
		const seconds = 12, server = Number(process.env.SERVER_PID);
		const far = now() + FAR_MS;
		await addAll(it, n, i => far + i);
		const worker = await startWorker('runs', () => { throw new Error('a job that is far away has run'); });
		await sleep(3000);
		const before = await it.statements(), own = processorTime(worker.pid), servers = processorTime(server), at = now();
		await sleep(seconds * 1000);
		const took = (now() - at) / 1000;
		const statements = await it.statements() - it.asks;
		const cpu = processorTime(worker.pid) - own, serverCpu = processorTime(server) - servers;
		figure('idle_statements', '1/s', (statements - before) / took);
		figure('idle_worker_cpu', 'ms/s', cpu * 1000 / took);
		figure('idle_server_cpu', 'ms/s', serverCpu * 1000 / took);
		await stopWorker(worker);
	},

	async kill(it) {
		if (it.waits?.[scenario]) {
			figure('wait_after_kill', 's', it.waits[scenario]);
			return;
		}
		let held = false, begun = 0;
		const first = await startWorker('holds', () => { held = true; });
		await it.add([{ n: 0, atMs: 0 }]);
		await until('start', 20000, () => held);
		const second = await startWorker('runs', () => { begun ||= now(); });
		await sleep(200);
		const blow = now();
		await stopWorker(first);
		await until('take-over', WAIT_MS[scenario], () => begun > 0);
		figure('wait_after_kill', 's', (begun - blow) / 1000);
		await stopWorker(second);
	},

	async kills(it, n) {
		const folder = mkdtempSync(`${tmpdir()}/rivals-`), workers = [];
		let begun, done, last;
		process.env.RIVAL_LOG = `${folder}/log`;
		const startMs = now() + AHEAD_MS;
		await addAll(it, n, i => startMs + i * 1000 / KILLS_RATE);
		for (let i = 0; i < 2; i++)
			workers.push(await startWorker('runs', () => {}));
		await sleep(startMs - now());
		for (let i = 0; i < KILLS; i++) {
			const next = sleep(600 + i * 7919 % 800); // irregular: some rivals work on whole seconds
			last = now();
			await stopWorker(workers.shift());
			workers.push(await startWorker('runs', () => {}));
			await next;
		}
		const read = () => {
			begun = new Array(n).fill(0);
			done = new Array(n).fill(0);
			for (const [, what, i] of readFileSync(process.env.RIVAL_LOG, 'latin1').matchAll(/(begun|done) (\d+)/g))
				(what === 'done' ? done : begun)[i]++;
		};
		let left = n;
		while (left > 0 && now() < Math.max(last, startMs + n * 1000 / KILLS_RATE) + it.patienceMs) {
			await sleep(250);
			left = await it.left();
		}
		const settled = now();
		await sleep(500);
		read();
		for (const worker of workers)
			await stopWorker(worker);
		rmSync(folder, { recursive: true });
		const kept = new Set(await it.kept());
		figure('kills_lost', 'jobs', done.filter((times, i) => times === 0 && !kept.has(i)).length);
		figure('kills_kept_back', 'jobs', kept.size);
		figure('kills_begun_again', 'jobs', begun.filter(times => times > 1).length);
		figure('kills_done_twice', 'jobs', done.filter(times => times > 1).length);
		if (kept.size === 0)
			figure('kills_settled', 's', (settled - last) / 1000);
	},

	async groups_capped(it, n) {
		const rates = [0, 0];
		for (let i = 0; i < 4; i++) {
			const capped = Number(i === 1 || i === 2); // what grows from round to round strikes both alike
			process.env.RIVAL_CAP = capped * 1000;
			const { lives } = await live(it, n);
			figure(capped ? 'grouped_capped' : 'grouped', '1/s', lives);
			rates[capped] += lives;
		}
		figure('capped_ratio', 'ratio', rates[1] / rates[0]);
	},

	// What runs is counted by the log, which says "begun" after the begin and "done" before the end.
	async groups_cap(it, n) {
		const folder = mkdtempSync(`${tmpdir()}/rivals-`), workers = [], running = new Array(GROUPS).fill(0);
		let ran = 0, full = 0, fourth = 0;
		process.env.RIVAL_LOG = `${folder}/log`;
		process.env.RIVAL_CAP = CAP;
		await addAll(it, n, () => 0);
		for (let i = 0; i < 2; i++)
			workers.push(await startWorker('runs', () => {}));
		await sleep(SECONDS * 1000);
		for (const worker of workers)
			await stopWorker(worker);
		for (const [, what, i] of readFileSync(process.env.RIVAL_LOG, 'latin1').matchAll(/(begun|done) (\d+)/g)) {
			const atOnce = running[i % GROUPS] += what === 'begun' ? 1 : -1;
			ran += what === 'done';
			full += what === 'begun' && atOnce === CAP;
			fourth += what === 'begun' && atOnce > CAP;
		}
		rmSync(folder, { recursive: true });
		figure('caps_ran', 'rows', ran);
		figure('caps_full', 'starts', full);
		figure('caps_fourth', 'starts', fourth);
	},

	async groups_flood(it, n) {
		const putMs = [], startedMs = [];
		let ran = 0;
		process.env.RIVAL_CAP = FLOOD_CAP;
		await addAll(it, n, () => 0, () => 'large');
		const worker = await startWorker('runs', starts => {
			for (const [i, at] of starts)
				if (i < n)
					ran++;
				else
					startedMs[i - n] = at;
		});
		await until('flood', 30000, () => ran > 0);
		const begin = now();
		for (let i = 0; i < PER_S * SECONDS; i++) {
			await sleep(begin + i * 1000 / PER_S - now());
			await it.add([{ n: n + i, atMs: 0, group: 'other' }]);
			putMs.push(now());
		}
		figure('flood_left', 'rows', n - ran);
		figure('flood_ran', 'rows', ran);
		const all = now() + 10000;
		while (now() < all && putMs.some((_, i) => startedMs[i] === undefined))
			await sleep(50);
		await stopWorker(worker);
		const late = putMs.map((at, i) => (startedMs[i] ?? now()) - at).sort((a, b) => a - b);
		figure('flood_late_p50', 'ms', percentile(late, 0.5));
		figure('flood_late_p99', 'ms', percentile(late, 0.99));
		figure('flood_late_max', 'ms', late[late.length - 1]);
	},

	async groups_rate(it, n) {
		const at = [];
		await addAll(it, n, () => 0);
		const worker = await startWorker('runs', starts => at.push(...starts.map(([, ms]) => ms)));
		await until('rate', 20000, () => at.length > 0);
		await sleep(SECONDS * 1000);
		await stopWorker(worker);
		at.sort((a, b) => a - b);
		figure('rate', '1/s', at.length / SECONDS);
		figure('rate_most', 'starts', Math.max(...at.map(from => at.filter(ms => ms >= from && ms < from + 1000).length)));
	},
};
scenarios.kill_shortest = scenarios.kill;

if (!subjects[subject] || !scenarios[scenario]) {
	console.error(`usage: rivals.mjs ${Object.keys(subjects).join('|')} ${Object.keys(scenarios).join('|')} [N]`);
	process.exit(2);
}
if (isWorker) {
	await workerMain();
} else {
	const it = await subjects[subject]();
	const text = it.notes[scenario];
	if (text)
		note(text);
	if (it.without)
		note(it.without);
	else
		await scenarios[scenario](it, Number(count ?? 4000));
	const left = ['late', 'lives', 'groups_capped'].includes(scenario) ? await it.left() : 0;
	if (left > 0)
		throw new Error(`${left} are left`);
	await it.close();
	process.exit(0);
}
