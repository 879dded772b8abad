/* SPDX-License-Identifier: BSD-2-Clause */

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.TimeUnit;

/** S1, S1w, S2, S2w, S2x: as bench/scenarios_load.c and bench/scenarios_churn.c, which say what is measured. */
final class Load {
	private Load() {
	}

	private static void fill(HashedWheelTimer timer, Timeout[] handles, Measure.Member me) {
		for (int i = me.first; i < me.end; i++)
			handles[i] = timer.newTimeout(NettyBench.NEVER, 60 * Measure.S + me.rng.span(60 * Measure.S),
						      TimeUnit.NANOSECONDS);
		me.accepted += me.end - me.first;
	}

	private static long cancelAll(Timeout[] handles) {
		long cancelled = 0;
		for (Timeout handle : handles)
			if (handle.cancel())
				cancelled++;
		return cancelled;
	}

	static double[] s1(NettyBench.Run run, boolean warm) {
		HashedWheelTimer timer = NettyBench.timer(run);
		Timeout[] handles = new Timeout[run.n];
		Measure.Team team = new Measure.Team(run.producers, run.n, run.seed);
		long cancelled = 0, cancelNs = 0, before, cpu, bytes;
		if (warm) {
			team.phase(me -> fill(timer, handles, me));
			Measure.settle(run.tickNs);
			before = Measure.live();
			cancelNs = System.nanoTime();
			cancelled = cancelAll(handles);
			cancelNs = System.nanoTime() - cancelNs;
			Measure.settle(run.tickNs);
		} else {
			before = Measure.live();
		}
		cpu = Measure.othersCpuNs();
		team.phase(me -> fill(timer, handles, me));
		Measure.settle(run.tickNs);
		cpu = Measure.othersCpuNs() - cpu;
		bytes = Measure.live() - before;
		long elapsed = team.elapsedNs, producers = team.cpuNs, accepted = team.accepted;
		team.end();
		long stop = NettyBench.end(timer, accepted, cancelled);
		return new double[] { run.n * 1e3 / elapsed, (double) producers / run.n, (double) cpu / run.n,
				      (double) bytes / run.n, warm ? run.n * 1e3 / cancelNs : (double) stop / run.n };
	}

	private static void churn(HashedWheelTimer timer, Measure.Member me) {
		long cancelled = 0;
		for (int i = me.first; i < me.end; i++)
			if (timer.newTimeout(NettyBench.NEVER, 30 * Measure.S, TimeUnit.NANOSECONDS).cancel())
				cancelled++;
		me.accepted += me.end - me.first;
		me.cancelled += cancelled;
	}

	static double[] s2(NettyBench.Run run) {
		HashedWheelTimer timer = NettyBench.timer(run);
		Measure.Team team = new Measure.Team(run.producers, run.n, run.seed);
		long before = Measure.rss(), cpu = Measure.othersCpuNs();
		team.phase(me -> churn(timer, me));
		Measure.settle(run.tickNs);
		cpu = Measure.othersCpuNs() - cpu;
		double[] figures = { run.n * 1e3 / team.elapsedNs, (double) team.cpuNs / run.n, (double) cpu / run.n,
				     (Measure.rssPeak() - before) / 1e6 };
		team.end();
		NettyBench.end(timer, team.accepted, team.cancelled);
		return figures;
	}

	private static void shuffle(Timeout[] handles, Measure.Member me) {
		for (int i = me.end; i > me.first + 1; i--) {
			int other = me.first + me.rng.below(i - me.first);
			Timeout handle = handles[i - 1];
			handles[i - 1] = handles[other];
			handles[other] = handle;
		}
	}

	private static void cancelOwn(Timeout[] handles, Measure.Member me) {
		for (int i = me.first; i < me.end; i++)
			if (handles[i].cancel())
				me.cancelled++;
	}

	static double[] s2w(NettyBench.Run run) {
		int window = run.n < 4_000_000 ? run.n / 10 + 1 : 400_000, waves = run.n / window;
		long all = (long) waves * window, fillNs = 0, cancelNs = 0, cancelCpuNs = 0;
		HashedWheelTimer timer = NettyBench.timer(run);
		Timeout[] handles = new Timeout[window];
		Measure.Team team = new Measure.Team(run.producers, window, run.seed);
		long before = Measure.rss(), cpu = Measure.othersCpuNs();
		for (int wave = 0; wave < waves; wave++) {
			team.phase(me -> fill(timer, handles, me));
			fillNs += team.elapsedNs;
			Measure.sleepNs(20 * Measure.MS);
			team.phase(me -> shuffle(handles, me));
			cpu += team.cpuNs; /* not to be counted, so it counts as earlier */
			team.phase(me -> cancelOwn(handles, me));
			cancelNs += team.elapsedNs;
			cancelCpuNs += team.cpuNs;
		}
		Measure.settle(run.tickNs);
		cpu = Measure.othersCpuNs() - cpu;
		team.end();
		double peak = (Measure.rssPeak() - before) / 1e6;
		NettyBench.end(timer, team.accepted, team.cancelled);
		return new double[] { all * 1e3 / cancelNs, (double) cancelCpuNs / all, all * 1e3 / fillNs,
				      (double) cpu / all, peak };
	}

	private static void exchange(HashedWheelTimer timer, Timeout[] handles, Measure.Member me, int times) {
		long window = me.end - me.first, accepted = 0, cancelled = 0;
		for (int i = 0; i < times; i++) {
			int which = me.first + (int) ((me.rng.next() >>> 32) * window >>> 32);
			if (handles[which].cancel())
				cancelled++;
			handles[which] = timer.newTimeout(NettyBench.NEVER,
							  60 * Measure.S + me.rng.span(60 * Measure.S),
							  TimeUnit.NANOSECONDS);
			accepted++;
		}
		me.accepted += accepted;
		me.cancelled += cancelled;
	}

	static double[] s2x(NettyBench.Run run) {
		int times = run.n / run.producers, window = Math.min(200_000, times / 2 + 1), all = window * run.producers;
		HashedWheelTimer timer = NettyBench.timer(run);
		Timeout[] handles = new Timeout[all];
		Measure.Team team = new Measure.Team(run.producers, all, run.seed);
		long before = Measure.rss();
		team.phase(me -> fill(timer, handles, me));
		Measure.settle(run.tickNs);
		team.phase(me -> exchange(timer, handles, me, 2 * window));
		Measure.settle(run.tickNs);
		long cpu = Measure.othersCpuNs();
		team.phase(me -> exchange(timer, handles, me, times));
		Measure.settle(run.tickNs);
		cpu = Measure.othersCpuNs() - cpu;
		if (team.accepted - team.cancelled != all)
			Measure.fail(team.accepted - team.cancelled + " pending instead of " + all);
		double n = (double) times * run.producers;
		double[] figures = { n * 1e3 / team.elapsedNs, team.cpuNs / n, cpu / n,
				     (double) (Measure.rssPeak() - before) / all };
		team.end();
		NettyBench.end(timer, team.accepted, team.cancelled);
		return figures;
	}
}
