// SPDX-License-Identifier: BSD-2-Clause
// What rivals.mjs measures, and what both files need.
import { readFileSync } from 'node:fs';
import net from 'node:net';

export const scenario = process.argv[3];
export const BATCH = 500;
export const now = () => performance.timeOrigin + performance.now();
const PAYLOAD = 'x'.repeat(36), CONCURRENCY = 24;

/*
 * The subjects.  add: jobs of {n, atMs}, atMs 0: at once.  work: calls run(n) for each.  statements: how many so far;
 * asks: how many of them each question is.  left: how many are not done yet.  kept: the numbers of these and of those
 * that have failed.  patienceMs: how long after the last kill it may take until nothing waits for the dead any more;
 * where that is 15 minutes or 4 hours, a few seconds.
 */

async function pool() {
	const { default: pg } = await import('pg');
	return new pg.Pool({ connectionString: process.env.PGURL, max: 4 });
}

// Statements of all sessions, by the server's log.  (Its counter of transactions also counts the ends of pipelines.)
async function pgStatements() {
	return readFileSync(process.env.PGLOG, 'latin1').match(/ LOG: {2}(?:statement|execute [^:]*): /g)?.length ?? 0;
}

export const subjects = {
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
