// SPDX-License-Identifier: BSD-2-Clause
// Measures what people use instead: one subject, one scenario, one round.
//
//     node rivals.mjs SUBJECT SCENARIO [N]        SUBJECT: graphile | pgboss | bullmq | beanstalkd
//
//     late           N put ahead, 1000 a second at random times: lateness of the starts
//     lives          N put by 500, due at once, which another process runs: jobs/s to the last put, to the last end
//     idle           N are due in ten days, a worker is started: statements and processor time a second
//     kill           a worker is killed while it runs a job: how long until another worker starts it
//     kill_shortest  the same with the shortest setting there is
//     kills          N put ahead, 200 a second, each a task of 20 ms, two workers; about each second one is killed and
//                    another one started, KILLS times: lost, kept back, begun and done more than once
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
import net from 'node:net';
import { tmpdir } from 'node:os';

const [subject, scenario, count] = process.argv.slice(2);
const isWorker = process.env.RIVAL_WORKER !== undefined;
const PAYLOAD = 'x'.repeat(36);
const RATE = 1000, BATCH = 500, AHEAD_MS = 3000, FAR_MS = 864e6, CONCURRENCY = 24;
const WAIT_MS = { kill: 70000, kill_shortest: 30000 };
const KILLS = Number(process.env.KILLS ?? 20), KILLS_RATE = 200, TASK_MS = 20;
const now = () => performance.timeOrigin + performance.now();
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const figure = (name, unit, value) => console.log(`${name} ${unit} ${Number(value.toPrecision(6))}`);
const note = text => console.log(`# ${text}`);

/*
 * The subjects.  add: jobs of {n, atMs}, atMs 0: at once.  work: calls run(n) for each.  statements: how many so far;
 * asks: how many of them each question is.  left: how many are not done yet.  kept: the numbers of these and of those that have failed.  patienceMs: how long after
 * the last kill it may take until nothing waits for the dead any more; where that is 15 minutes or 4 hours, a few seconds.
 */

async function pool() {
	const { default: pg } = await import('pg');
	return new pg.Pool({ connectionString: process.env.PGURL, max: 4 });
}

// Statements of all sessions, by the server's log.  (Its counter of transactions also counts the ends of pipelines.)
async function pgStatements() {
	return readFileSync(process.env.PGLOG, 'latin1').match(/ LOG: {2}(?:statement|execute [^:]*): /g)?.length ?? 0;
}

const subjects = {
	async graphile() {
		const { makeWorkerUtils, run, Logger } = await import('graphile-worker');
		const logger = new Logger(() => () => {});
		const utils = await makeWorkerUtils({ connectionString: process.env.PGURL, logger });
		const db = await pool();
		let runner;
		await utils.migrate();
		return {
			notes: {
				late: 'pollInterval 2 s, its default and recommendation; a job that is not due yet is found by polling',
				lives: `localQueue of ${BATCH}, ends and failures in batches: what its manual recommends for throughput`,
				kill: 'jobs of a dead worker are unlocked after 4 hours, which no setting changes: not waited for',
				kills: 'what the dead hold is unlocked after 4 hours: not waited for, kept back',
			},
			waits: { kill: 4 * 3600, kill_shortest: 4 * 3600 },
			patienceMs: 10000,
			add: jobs => utils.addJobs(jobs.map(job => ({
				identifier: 'bench',
				payload: { n: job.n, x: PAYLOAD },
				runAt: job.atMs ? new Date(job.atMs) : undefined,
			}))),
			async work(task) {
				const throughput = scenario === 'lives' ? {
					localQueue: { size: BATCH },
					completeJobBatchDelay: 0,
					failJobBatchDelay: 0,
				} : {};
				runner = await run({
					connectionString: process.env.PGURL,
					logger,
					noHandleSignals: true,
					concurrency: CONCURRENCY,
					pollInterval: 2000,
					preset: { worker: { concurrentJobs: CONCURRENCY, maxPoolSize: CONCURRENCY + 2, ...throughput } },
					taskList: { bench: payload => task(payload.n) },
				});
			},
			statements: pgStatements,
			asks: 0,
			async left() {
				const { rows } = await db.query('select count(*)::int as n from graphile_worker.jobs');
				return rows[0].n;
			},
			async kept() {
				const { rows } = await db.query("select (payload->>'n')::int as n from graphile_worker._private_jobs");
				return rows.map(row => row.n);
			},
			async close() {
				await runner?.stop();
				await utils.release();
				await db.end();
			},
		};
	},

	async pgboss() {
		const { default: PgBoss } = await import('pg-boss');
		const shortest = scenario === 'kill_shortest';
		const boss = new PgBoss({
			connectionString: process.env.PGURL,
			...(shortest ? { maintenanceIntervalSeconds: 1 } : {}),
		});
		const db = await pool();
		boss.on('error', error => { throw error; });
		await boss.start();
		await boss.createQueue('bench');
		return {
			notes: {
				late: `pollingIntervalSeconds 0.5, its least (default 2), batches of ${BATCH}`,
				lives: `pollingIntervalSeconds 0.5, batches of ${BATCH}: between two polls one batch a worker`,
				kill: 'a job expires 15 minutes after its start, by default: not waited for',
				kill_shortest: 'expireInSeconds 1, maintenance each second; with it no task may take longer than a second',
				kills: `batches of ${CONCURRENCY} at once; what the dead hold expires after 15 minutes: not waited for, kept back`,
			},
			waits: { kill: 900 },
			patienceMs: 10000,
			add: jobs => boss.insert(jobs.map(job => ({
				name: 'bench',
				data: { n: job.n, x: PAYLOAD },
				startAfter: job.atMs ? new Date(job.atMs) : undefined,
				...(shortest ? { expireInSeconds: 1 } : {}),
			}))),
			async work(task) {
				const batchSize = scenario === 'kills' ? CONCURRENCY : scenario.startsWith('kill') ? 1 : BATCH;
				for (let i = 0; i < 4; i++)
					await boss.work('bench', { batchSize, pollingIntervalSeconds: 0.5 }, async jobs => {
						if (scenario === 'kills')
							return Promise.all(jobs.map(job => task(job.data.n)));
						for (const job of jobs)
							await task(job.data.n);
					});
			},
			statements: pgStatements,
			asks: 0,
			async left() {
				const { rows } = await db.query(
					"select count(*)::int as n from pgboss.job where name = 'bench' and state < 'completed'");
				return rows[0].n;
			},
			async kept() {
				const { rows } = await db.query(`select (data->>'n')::int as n from pgboss.job
					where name = 'bench' and state <> 'completed'`);
				return rows.map(row => row.n);
			},
			async close() {
				await boss.stop({ graceful: false, wait: true });
				await db.end();
			},
		};
	},

	async bullmq() {
		const { Queue, Worker } = await import('bullmq');
		const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
		const queue = new Queue('bench', { connection });
		const admin = new (await import('ioredis')).Redis(connection);
		let worker;
		return {
			notes: {
				late: 'Redis with appendonly yes, appendfsync everysec: a second of accepted jobs is lost with the machine',
				kill: 'lockDuration and stalledInterval 30 s, its defaults',
				kill_shortest: 'lockDuration and stalledInterval 1 s; its manual warns of short locks: a busy loop loses them',
				kills: 'lockDuration and stalledInterval 30 s, its defaults; a job that stalls twice has failed',
			},
			patienceMs: 70000,
			add: jobs => queue.addBulk(jobs.map(job => ({
				name: 'bench',
				data: { n: job.n, x: PAYLOAD },
				opts: {
					delay: job.atMs ? Math.max(0, Math.round(job.atMs - now())) : 0,
					removeOnComplete: true,
				},
			}))),
			async work(task) {
				worker = new Worker('bench', job => task(job.data.n), {
					connection,
					concurrency: CONCURRENCY,
					...(scenario === 'kill_shortest' ? { lockDuration: 1000, stalledInterval: 1000 } : {}),
				});
				worker.on('error', () => {});
				await worker.waitUntilReady();
			},
			asks: 1,
			async statements() {
				return Number(/total_commands_processed:(\d+)/.exec(await admin.info('stats'))[1]);
			},
			async left() {
				const counts = await queue.getJobCounts('wait', 'active', 'delayed', 'prioritized', 'failed');
				return Object.values(counts).reduce((a, b) => a + b, 0);
			},
			async kept() {
				const jobs = await queue.getJobs(['wait', 'active', 'delayed', 'prioritized', 'failed']);
				return jobs.map(job => job.data.n);
			},
			async close() {
				await worker?.close(true);
				await queue.close();
				admin.disconnect();
			},
		};
	},

	async beanstalkd() {
		const open = [];
		// Answers come in the order of the commands.
		function connect() {
			return new Promise((resolve, reject) => {
				const socket = net.connect(Number(process.env.BEANSTALKD_PORT), '127.0.0.1');
				let buffer = Buffer.alloc(0);
				const waiting = [];
				const ask = text => new Promise(answered => {
					waiting.push(answered);
					socket.write(text);
				});
				socket.setNoDelay(true);
				socket.on('error', reject);
				socket.on('data', data => {
					buffer = Buffer.concat([buffer, data]);
					for (;;) {
						const end = buffer.indexOf('\r\n');
						if (end < 0)
							return;
						const words = buffer.toString('latin1', 0, end).split(' ');
						const has = words[0] === 'RESERVED' || words[0] === 'OK';
						const length = has ? Number(words[words.length - 1]) : -2;
						if (buffer.length < end + 4 + length)
							return;
						const body = has ? buffer.toString('utf8', end + 2, end + 2 + length) : '';
						buffer = buffer.subarray(end + 4 + length);
						waiting.shift()({ words, body });
					}
				});
				socket.on('connect', () => {
					open.push(socket);
					resolve(ask);
				});
			});
		}
		const ask = await connect();
		const stats = async () => (await ask('stats\r\n')).body;
		let stopped = false;
		return {
			notes: {
				late: 'delays are whole seconds, rounded up here: half a second of the lateness is its grid',
				lives: 'puts have no batches, so 500 are sent at once; the binlog is synced each 50 ms, its default',
				kill: 'a job is free again when the connection closes, at once; a machine that vanishes costs the TTR (60 s)',
				kills: 'jobs are due on whole seconds, 200 at once',
			},
			patienceMs: 10000,
			async add(jobs) {
				const answers = await Promise.all(jobs.map(job => {
					const body = JSON.stringify({ n: job.n, x: PAYLOAD });
					const delay = job.atMs ? Math.max(0, Math.ceil((job.atMs - now()) / 1000)) : 0;
					return ask(`put 0 ${delay} 60 ${body.length}\r\n${body}\r\n`);
				}));
				for (const { words } of answers)
					if (words[0] !== 'INSERTED')
						throw new Error(words.join(' '));
			},
			async work(task) {
				for (let i = 0; i < CONCURRENCY; i++) {
					const mine = await connect();
					(async () => {
						while (!stopped) {
							const { words, body } = await mine('reserve\r\n');
							if (words[0] !== 'RESERVED')
								continue;
							await task(JSON.parse(body).n);
							await mine(`delete ${words[1]}\r\n`);
						}
					})();
				}
			},
			asks: 1,
			async statements() {
				return [...(await stats()).matchAll(/^cmd-[a-z-]+: (\d+)/gm)].reduce((sum, m) => sum + Number(m[1]), 0);
			},
			async left() {
				return [...(await stats()).matchAll(/^current-jobs-(?:ready|reserved|delayed|buried): (\d+)/gm)]
					.reduce((sum, m) => sum + Number(m[1]), 0);
			},
			async kept() {
				if (await this.left() > 0)
					throw new Error('beanstalkd has jobs left, and cannot list them');
				return [];
			},
			async close() {
				stopped = true;
				for (const socket of open)
					socket.destroy();
			},
		};
	},
};

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

async function addAll(it, n, atMs) {
	for (let from = 0; from < n; from += BATCH)
		await it.add(Array.from({ length: Math.min(BATCH, n - from) }, (_, i) => ({ n: from + i, atMs: atMs(from + i) })));
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
		figure('adds', '1/s', n * 1000 / (now() - before));
		await until('lives', 120000, () => seen.size === n);
		await until('lives', 10000, async () => await it.left() === 0);
		figure('lives', '1/s', n * 1000 / (now() - before));
		await stopWorker(worker);
		if (twice > 0)
			throw new Error(`${twice} ran twice`);
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
};
scenarios.kill_shortest = scenarios.kill;

if (!subjects[subject] || !scenarios[scenario]) {
	console.error('usage: rivals.mjs graphile|pgboss|bullmq|beanstalkd late|lives|idle|kill|kill_shortest|kills [N]');
	process.exit(2);
}
if (isWorker) {
	await workerMain();
} else {
	const it = await subjects[subject]();
	const text = it.notes[scenario];
	if (text)
		note(text);
	await scenarios[scenario](it, Number(count ?? 4000));
	const left = scenario === 'idle' || scenario.startsWith('kill') ? 0 : await it.left();
	if (left > 0)
		throw new Error(`${left} are left`);
	await it.close();
	process.exit(0);
}
