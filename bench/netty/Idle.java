/* SPDX-License-Identifier: BSD-2-Clause */

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.concurrent.TimeUnit;

/** S5, S6: as bench/scenarios_idle.c. */
final class Idle {
	private Idle() {
	}

	private static void fill(NettyBench.Run run, HashedWheelTimer timer, long from, long to) {
		Measure.Rng rng = new Measure.Rng(run.seed);
		for (int i = 0; i < run.n; i++)
			timer.newTimeout(NettyBench.NEVER, from + rng.span(to - from), TimeUnit.NANOSECONDS);
		Measure.settle(run.tickNs);
	}

	/** CPU ms/s, switches/s. */
	private static double[] watch(long windowNs) {
		long switches = Measure.switches(), begin = System.nanoTime(), cpu = Measure.othersCpuNs();
		Measure.sleepNs(windowNs);
		double s = (System.nanoTime() - begin) / 1e9;
		return new double[] { (Measure.othersCpuNs() - cpu) / 1e6 / s,
				      (Measure.switches() - switches - 1) / s };
	}

	static double[] s5(NettyBench.Run run) {
		HashedWheelTimer timer = NettyBench.timer(run);
		fill(run, timer, 3600 * Measure.S, 3660 * Measure.S);
		double[] figures = watch(run.windowNs);
		NettyBench.end(timer, run.n, 0);
		return figures;
	}

	/** Arms itself for each next tick until it is told to stop. */
	private static final class Ticking implements TimerTask {
		private final HashedWheelTimer timer;
		private final long tickNs;
		volatile boolean stop, stopped;
		long armed;

		Ticking(HashedWheelTimer timer, long tickNs) {
			this.timer = timer;
			this.tickNs = tickNs;
		}

		@Override
		public void run(Timeout timeout) {
			NettyBench.ran.setRelease(NettyBench.ran.getPlain() + 1);
			if (stop)
				stopped = true;
			else
				arm();
		}

		void arm() {
			armed++;
			timer.newTimeout(this, tickNs, TimeUnit.NANOSECONDS);
		}
	}

	static double[] s6(NettyBench.Run run) {
		HashedWheelTimer timer = NettyBench.timer(run);
		long before = Measure.live();
		fill(run, timer, 600 * Measure.S, 3600 * Measure.S);
		long bytes = Measure.live() - before;
		Measure.settle(run.tickNs); /* the collector has held up the worker */
		double[] idle = watch(run.windowNs);
		Ticking ticking = new Ticking(timer, run.tickNs);
		ticking.arm();
		Measure.sleepNs(50 * Measure.MS);
		double[] busy = watch(run.windowNs);
		ticking.stop = true;
		for (int i = 0; i < 1000 && !ticking.stopped; i++)
			Measure.sleepNs(10 * Measure.MS);
		NettyBench.end(timer, run.n + ticking.armed, 0);
		return new double[] { idle[0], idle[1], busy[0], run.n > 0 ? (double) bytes / run.n : 0 };
	}
}
