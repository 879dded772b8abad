/* SPDX-License-Identifier: BSD-2-Clause */

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * S1, S1w, S2, S2w, S2x, S9: as bench/scenarios_load.c, bench/scenarios_churn.c and bench/scenarios_tail.c, which say
 * what is measured.
 */
final class Load {
	private static final int BINS = 1088;

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

	/** Times by their size, as in bench/scenarios_tail.c. */
	private static int bin(long ns) {
		int shift = ns < 64 ? 0 : 58 - Long.numberOfLeadingZeros(ns);
		return Math.min(32 * shift + (int) (ns >> shift), BINS - 1);
	}

	private static double binUs(int bin) {
		int shift = bin < 64 ? 0 : bin / 32 - 1;
		return (((long) (bin - 32 * shift + 1) << shift) - 1) / 1e3;
	}

	private static double quantileUs(long[] bins, double q) {
		long rank = (long) (q * Arrays.stream(bins).sum()), seen = 0;
		int bin = 0;
		while (bin < BINS - 1 && (seen += bins[bin]) <= rank)
			bin++;
		return binUs(bin);
	}

	private static void exchangeTimed(HashedWheelTimer timer, Timeout[] handles, Measure.Member me, int times,
					  long[] schedules, long[] cancels) {
		long window = me.end - me.first;
		for (int i = 0; i < times; i++) {
			int which = me.first + (int) ((me.rng.next() >>> 32) * window >>> 32);
			long delay = 60 * Measure.S + me.rng.span(60 * Measure.S), begun = System.nanoTime();
			if (handles[which].cancel())
				me.cancelled++;
			long between = System.nanoTime();
			handles[which] = timer.newTimeout(NettyBench.NEVER, delay, TimeUnit.NANOSECONDS);
			schedules[bin(System.nanoTime() - between)]++;
			cancels[bin(between - begun)]++;
		}
		me.accepted += times;
	}

	static double[] s9(NettyBench.Run run) {
		int all = 1000 * run.producers, times = run.n / run.producers;
		HashedWheelTimer timer = NettyBench.timer(run);
		Timeout[] handles = new Timeout[all];
		Measure.Team team = new Measure.Team(run.producers, all, run.seed);
		team.phase(me -> fill(timer, handles, me));
		Measure.settle(run.tickNs);
		team.phase(me -> exchangeTimed(timer, handles, me, times / 10 + 1, new long[BINS], new long[BINS]));
		long[][] schedules = new long[run.producers][BINS], cancels = new long[run.producers][BINS];
		team.phase(me -> exchangeTimed(timer, handles, me, times, schedules[me.index], cancels[me.index]));
		team.end();
		for (int i = 1; i < run.producers; i++)
			for (int bin = 0; bin < BINS; bin++) {
				schedules[0][bin] += schedules[i][bin];
				cancels[0][bin] += cancels[i][bin];
			}
		double[] figures = new double[8];
		double[] quantiles = { 0.99, 0.999, 0.9999, 0.99999 };
		for (int i = 0; i < quantiles.length; i++) {
			figures[i] = quantileUs(schedules[0], quantiles[i]);
			figures[quantiles.length + i] = quantileUs(cancels[0], quantiles[i]);
		}
		NettyBench.end(timer, team.accepted, team.cancelled);
		return figures;
	}
}
