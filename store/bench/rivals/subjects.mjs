// SPDX-License-Identifier: BSD-2-Clause
// What rivals.mjs measures, and what both files need.
import { readFileSync } from 'node:fs';
import net from 'node:net';

export const scenario = process.argv[3];
export const BATCH = 500;
export const now = () => performance.timeOrigin + performance.now();
export const CAP = 3, FLOOD_CAP = 12, PER_S = 100;
export const GROUPS = { groups_capped: 100, groups_cap: 10 }[scenario] ?? 0; // a job's is its number modulo these
const PAYLOAD = 'x'.repeat(36), CONCURRENCY = 24;
// What runs of a group at once; 0: no cap.  A worker has it from the process that adds.
const cap = () => Number(process.env.RIVAL_CAP ?? 0);

/*
 * The subjects.  add: jobs of {n, atMs, group}, atMs 0: at once.  work: calls run(n) for each.  statements: how many so
 * far; asks: how many of them each question is.  left: how many are not done yet.  kept: the numbers of these and of those
 * that have failed.  patienceMs: how long after the last kill it may take until nothing waits for the dead any more;
 * where that is 15 minutes or 4 hours, a few seconds.  without: why there is nothing to measure.
 */

async function pool() {
	const { default: pg } = await import('pg');
	return new pg.Pool({ connectionString: process.env.PGURL, max: 4 });
}

// Statements of all sessions, by the server's log.  (Its counter of transactions also counts the ends of pipelines.)
async function pgStatements() {
	return readFileSync(process.env.PGLOG, 'latin1').match(/ LOG: {2}(?:statement|execute [^:]*): /g)?.length ?? 0;
}

/*
 * Its groups are sold.  Where a group has to have a cap or a share of its own, each is a queue.
 */
async function bullmq(onPostgres) {
	const { Queue, Worker, createPostgresBackend, runMigrations } = await import('bullmq');
	const redis = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
	const connection = onPostgres ? { connectionString: process.env.PGURL, max: 4 } : redis;
	const backend = onPostgres ? [createPostgresBackend] : [];
	const admin = onPostgres ? await pool() : new (await import('ioredis')).Redis(redis);
	const names = scenario === 'groups_cap' ? Array.from({ length: GROUPS }, (_, i) => `g${i}`)
		: scenario === 'groups_flood' ? ['large', 'other'] : ['bench'];
	const states = ['wait', 'active', 'delayed', 'prioritized', 'failed'];
	if (onPostgres) {
		const client = await admin.connect();
		await runMigrations(client);
		client.release();
	}
	const queues = names.map(name => new Queue(name, { connection }, ...backend));
	const workers = [];
	return {
		notes: {
			late: onPostgres ? undefined
				: 'Redis with appendonly yes, appendfsync everysec: a second of accepted jobs is lost with the machine',
			kill: 'lockDuration and stalledInterval 30 s, its defaults',
			kill_shortest: 'lockDuration and stalledInterval 1 s; its manual warns of short locks: a busy loop loses them',
			kills: 'lockDuration and stalledInterval 30 s, its defaults; a job that stalls twice has failed',
			groups_capped: 'its groups are sold: the global concurrency of one queue',
			groups_cap: 'its groups are sold: ten queues with a global concurrency of 3',
			groups_flood: 'its groups are sold: a queue and a worker for each of two tenants',
			groups_rate: `the limiter of its worker, ${PER_S} in 1000 ms; those of groups are sold`,
		},
		patienceMs: 70000,
		add: jobs => Promise.all(queues.map((queue, i) => {
			const its = jobs.filter(job => names.length === 1 || job.group === names[i]);
			return its.length && queue.addBulk(its.map(job => ({
				name: 'bench',
				data: { n: job.n, x: PAYLOAD },
				opts: {
					delay: job.atMs ? Math.max(0, Math.round(job.atMs - now())) : 0,
					removeOnComplete: true,
				},
			})));
		})),
		async work(task) {
			for (const queue of queues) {
				await (cap() ? queue.setGlobalConcurrency(cap()) : queue.removeGlobalConcurrency());
				workers.push(new Worker(queue.name, job => task(job.data.n), {
					connection,
					concurrency: Math.ceil(CONCURRENCY / queues.length),
					...(scenario === 'kill_shortest' ? { lockDuration: 1000, stalledInterval: 1000 } : {}),
					...(scenario === 'groups_rate' ? { limiter: { max: PER_S, duration: 1000 } } : {}),
				}, ...backend));
			}
			for (const worker of workers) {
				worker.on('error', () => {});
				await worker.waitUntilReady();
			}
		},
		asks: onPostgres ? 0 : 1,
		statements: onPostgres ? pgStatements
			: async () => Number(/total_commands_processed:(\d+)/.exec(await admin.info('stats'))[1]),
		async left() {
			const counts = await Promise.all(queues.map(queue => queue.getJobCounts(...states)));
			return counts.flatMap(Object.values).reduce((a, b) => a + b, 0);
		},
		async kept() {
			const jobs = await Promise.all(queues.map(queue => queue.getJobs(states)));
			return jobs.flat().map(job => job.data.n);
		},
		async close() {
			await Promise.all(workers.map(worker => worker.close(true)));
			await Promise.all(queues.map(queue => queue.close()));
			await (onPostgres ? admin.end() : admin.disconnect());
		},
	};
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
				groups_capped: 'its only cap is 1, of a named queue; localQueue without it alone, as it takes one of a named queue',
				groups_cap: 'its only cap is 1, of a named queue',
				groups_flood: 'a named queue a tenant, so one at a time of each',
			},
			without: scenario === 'groups_rate' && 'has no rate limit',
			waits: { kill: 4 * 3600, kill_shortest: 4 * 3600 },
			patienceMs: 10000,
			add: jobs => utils.addJobs(jobs.map(job => ({
				identifier: 'bench',
				payload: { n: job.n, x: PAYLOAD },
				runAt: job.atMs ? new Date(job.atMs) : undefined,
				queueName: cap() ? job.group : undefined,
			}))),
			async work(task) {
				const throughput = scenario === 'lives' || (scenario === 'groups_capped' && !cap()) ? {
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
		const { PgBoss } = await import('pg-boss');
		const shortest = scenario === 'kill_shortest';
		// NOTIFY for what comes, and no pause while some wait.  Small batches: 24 that fetch one each keep the server busy.
		const atOnce = ['groups_cap', 'groups_flood'].includes(scenario);
		const eachSecond = { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1, queueCacheIntervalSeconds: 1 };
		const boss = new PgBoss({
			connectionString: process.env.PGURL,
			useListenNotify: atOnce,
			...(shortest || atOnce ? eachSecond : {}),
		});
		const db = await pool();
		boss.on('error', error => { throw error; });
		await boss.start();
		await boss.createQueue('bench', { notify: atOnce });
		return {
			notes: {
				late: `pollingIntervalSeconds 0.5, its least (default 2), batches of ${BATCH}`,
				lives: `pollingIntervalSeconds 0.5, batches of ${BATCH}, no pause after a full one`,
				kill: 'a job expires 15 minutes after its start, by default: not waited for',
				kill_shortest: 'expireInSeconds 1, looked for each second: no task may take longer; heartbeats, of 10 s or more, allow it',
				kills: `batches of ${CONCURRENCY} at once; what the dead hold expires after 15 minutes: not waited for, kept back`,
				groups_cap: `groupConcurrency ${CAP}, batches of ${CONCURRENCY / 4}; its manual: fetches at once may exceed it for a moment`,
				groups_flood: `groupConcurrency ${FLOOD_CAP} of ${CONCURRENCY}, batches of ${CONCURRENCY / 4}`,
			},
			without: scenario === 'groups_rate' && 'limits how often a job is put, not how often one starts',
			waits: { kill: 900 },
			patienceMs: 10000,
			add: jobs => boss.insert('bench', jobs.map(job => ({
				data: { n: job.n, x: PAYLOAD },
				startAfter: job.atMs ? new Date(job.atMs) : undefined,
				...(job.group ? { group: { id: job.group } } : {}),
				...(shortest ? { expireInSeconds: 1 } : {}),
			}))),
			async work(task) {
				const batchSize = scenario === 'kills' ? CONCURRENCY : scenario.startsWith('kill') ? 1
					: atOnce ? CONCURRENCY / 4 : BATCH;
				await boss.work('bench', {
					batchSize,
					pollingIntervalSeconds: 0.5,
					notifyPollingIntervalSeconds: 0.5,
					localConcurrency: 4,
					...(batchSize > 1 && scenario !== 'kills' ? { burstWhenBatchFull: true } : {}),
					...(atOnce ? { burstWhenReadyExceeds: 1 } : {}),
					...(cap() ? { groupConcurrency: cap() } : {}),
				}, async jobs => {
					if (scenario === 'kills' || atOnce)
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

	bullmq: () => bullmq(false),
	bullmqpg: () => bullmq(true),

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
			without: scenario.startsWith('groups') && 'has no groups, caps or rates',
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
