/* SPDX-License-Identifier: BSD-2-Clause */

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/** S3, S4: as bench/scenarios_fire.c. */
final class Fire {
	private static final double[] QUANTILES = { 0.5, 0.9, 0.99, 0.999, 0.9999, 1 };

	private Fire() {
	}

	/**
	 * Holds n and cancels them in random order, as run_scatter does for pooled memory.  Returns how long scheduling
	 * them took.
	 */
	private static long scatter(NettyBench.Run run, HashedWheelTimer timer, Measure.Rng rng) {
		Timeout[] handles = new Timeout[run.n];
		long took = System.nanoTime();
		for (int i = 0; i < run.n; i++)
			handles[i] = timer.newTimeout(NettyBench.NEVER, 600 * Measure.S + rng.span(60 * Measure.S),
						      TimeUnit.NANOSECONDS);
		took = System.nanoTime() - took;
		for (int i = run.n; i > 1; i--) {
			int other = rng.below(i);
			Timeout handle = handles[i - 1];
			handles[i - 1] = handles[other];
			handles[other] = handle;
		}
		Measure.settle(run.tickNs);
		for (Timeout handle : handles)
			if (!handle.cancel())
				Measure.fail("a cancel failed");
		Measure.settle(run.tickNs);
		return took;
	}

	static double[] s3(NettyBench.Run run, long spanNs) {
		HashedWheelTimer timer = NettyBench.timer(run);
		Measure.Rng rng = new Measure.Rng(run.seed + 1);
		long lead = 500 * Measure.MS + 5 * scatter(run, timer, rng);
		NettyBench.expected = run.n;
		long deadline = System.nanoTime() + lead, last = deadline;
		TimerTask same = new NettyBench.Check(deadline);
		for (int i = 0; i < run.n; i++) {
			long one = deadline + rng.span(spanNs);
			last = Math.max(last, one);
			timer.newTimeout(spanNs == 0 ? same : new NettyBench.Check(one), one - System.nanoTime(),
					 TimeUnit.NANOSECONDS);
		}
		if (System.nanoTime() - (deadline - 100 * Measure.MS) > 0 && !Measure.warming)
			Measure.absent("too slow: the first was due before the last was scheduled");
		Measure.sleepUntil(deadline - 5 * Measure.MS);
		long cpu = Measure.othersCpuNs();
		Measure.sleepUntil(last + 10 * Measure.MS);
		NettyBench.awaitAll(last + 20 * Measure.S);
		cpu = Measure.othersCpuNs() - cpu;
		double[] figures = { run.n * 1e3 / (NettyBench.lastNs - NettyBench.firstNs + 1),
				     (NettyBench.firstNs - deadline) / 1e6, (NettyBench.lastNs - last) / 1e6,
				     (double) cpu / run.n };
		NettyBench.end(timer, 2L * run.n, run.n);
		return figures;
	}

	static double[] s4(NettyBench.Run run) {
		long span = run.quick ? Measure.S : 5 * Measure.S;
		long[] late = new long[run.n];
		HashedWheelTimer timer = NettyBench.timer(run);
		Measure.Rng rng = new Measure.Rng(run.seed);
		NettyBench.expected = run.n;
		long cpu = Measure.othersCpuNs(), begin = System.nanoTime();
		for (int i = 0; i < run.n; i++) {
			long delay = rng.span(span), deadline = System.nanoTime() + delay;
			timer.newTimeout(timeout -> {
				int at = (int) NettyBench.ran.getPlain();
				late[at] = System.nanoTime() - deadline;
				NettyBench.ran.setRelease(at + 1);
			}, delay, TimeUnit.NANOSECONDS);
		}
		Measure.sleepNs(span + 20 * Measure.MS);
		NettyBench.awaitAll(begin + span + 20 * Measure.S);
		cpu = Measure.othersCpuNs() - cpu;
		double elapsed = System.nanoTime() - begin;
		Arrays.sort(late);
		double[] figures = new double[QUANTILES.length + 2];
		for (int i = 0; i < QUANTILES.length; i++)
			figures[i] = late[Math.min((int) (QUANTILES[i] * run.n), run.n - 1)] / 1e6;
		figures[QUANTILES.length] = Arrays.stream(late).filter(ns -> ns < 0).count();
		figures[QUANTILES.length + 1] = cpu * 1e3 / elapsed;
		NettyBench.end(timer, run.n, 0);
		return figures;
	}
}
