/* SPDX-License-Identifier: BSD-2-Clause */

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import io.netty.util.Version;
import io.netty.util.concurrent.DefaultThreadFactory;
import io.netty.util.internal.PlatformDependent;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Netty's HashedWheelTimer as a subject of the bench; bench/program.c says how it is called and what it prints.
 *
 * Configuration: 512 buckets, leak detection off, started before the first timeout; some rounds to warm up, which the
 * compiler needs.  What a timeout takes in memory is read off the heap after a collection, as RSS would show the
 * collector's habits.
 */
public final class NettyBench {
	static final int BUCKETS = 512;

	/** One run, as asked for. */
	static final class Run {
		String scenario;
		int producers, n;
		long tickNs, windowNs, seed;
		boolean quick;

		Run with(int otherN, long otherTickNs) {
			Run run = new Run();
			run.scenario = scenario;
			run.producers = producers;
			run.n = otherN;
			run.tickNs = otherTickNs;
			run.windowNs = windowNs;
			run.seed = seed;
			run.quick = true;
			return run;
		}
	}

	/** What tasks leave behind: written by the one worker. */
	static final AtomicLong ran = new AtomicLong();
	static long expected, early, seenNs, firstNs, lastNs;

	/** Checks its deadline; the clock is read only if the last reading does not prove it. */
	static final class Check implements TimerTask {
		private final long deadlineNs;

		Check(long deadlineNs) {
			this.deadlineNs = deadlineNs;
		}

		@Override
		public void run(Timeout timeout) {
			long count = ran.getPlain() + 1;
			if (deadlineNs - seenNs > 0) {
				seenNs = System.nanoTime();
				if (seenNs - deadlineNs < 0)
					early++;
				if (count == 1)
					firstNs = seenNs;
			}
			if (count == expected)
				lastNs = System.nanoTime();
			ran.setRelease(count);
		}
	}

	static final TimerTask NEVER = timeout -> Measure.fail("a timeout of another minute ran");

	static HashedWheelTimer timer(Run run) {
		ran.set(0);
		expected = early = 0;
		seenNs = System.nanoTime();
		HashedWheelTimer timer = new HashedWheelTimer(new DefaultThreadFactory("wheel", true), run.tickNs,
							      TimeUnit.NANOSECONDS, BUCKETS, false);
		timer.start();
		return timer;
	}

	/** Stops it and holds the run against the law; returns how long that took. */
	static long end(HashedWheelTimer timer, long accepted, long cancelled) {
		long begin = System.nanoTime();
		long returned = timer.stop().size(), took = System.nanoTime() - begin;
		if (early != 0)
			Measure.fail(early + " ran early");
		if (accepted != ran.get() + cancelled + returned)
			Measure.fail("accepted " + accepted + ", but ran " + ran + ", cancelled " + cancelled +
				     ", returned " + returned);
		return took;
	}

	static void awaitAll(long limitNs) {
		while (ran.getAcquire() < expected && System.nanoTime() - limitNs < 0)
			Measure.sleepNs(2 * Measure.MS);
		if (ran.getAcquire() != expected)
			Measure.fail("only " + ran + " of " + expected + " ran in time");
	}

	interface Scenario {
		double[] run(Run run);
	}

	private static Scenario find(String name) {
		switch (name) {
		case "S1":
		case "S1t":
		case "S8.P":
		case "S8.S1":
			return run -> Load.s1(run, false);
		case "S1w":
			return run -> Load.s1(run, true);
		case "S2":
		case "S8.S2":
			return Load::s2;
		case "S2w":
			return Load::s2w;
		case "S2x":
			return Load::s2x;
		case "S3":
			return run -> Fire.s3(run, 0);
		case "S3.spread":
			return run -> Fire.s3(run, 100 * Measure.MS);
		case "S4":
			return Fire::s4;
		case "S5":
			return Idle::s5;
		case "S6":
			return Idle::s6;
		case "S9":
			return Load::s9;
		default:
			return null;
		}
	}

	/** The same paths with smaller numbers until the compiler has seen them often enough. */
	private static void warmUp(Run run, Scenario scenario) {
		if (scenario == null)
			return;
		if (run.scenario.startsWith("S1") || run.scenario.equals("S8.P") || run.scenario.startsWith("S8.S1"))
			for (int i = 0; i < 8; i++)
				scenario.run(run.with(200_000, run.tickNs));
		else if (run.scenario.startsWith("S2") || run.scenario.equals("S8.S2") ||
			 run.scenario.equals("S9"))
			for (int i = 0; i < 6; i++)
				scenario.run(run.with(400_000, run.tickNs));
		else
			for (int i = 0; i < 3; i++)
				Fire.s3(run.with(200_000, Measure.MS), i == 0 ? 0 : 100 * Measure.MS);
	}

	public static void main(String[] args) {
		if (args.length == 1 && args[0].equals("--version")) {
			System.out.println(Version.identify().get("netty-common").artifactVersion() + ", Java " +
					   Runtime.version() +
					   (PlatformDependent.hasUnsafe() ? "" : ", without Unsafe"));
			return;
		}
		Run run = new Run();
		run.scenario = args[0];
		run.producers = Integer.parseInt(args[1]);
		run.n = Integer.parseInt(args[2]);
		run.tickNs = Long.parseLong(args[3]);
		run.windowNs = Long.parseLong(args[5]);
		run.seed = Long.parseLong(args[6]);
		run.quick = args[7].equals("1");
		Scenario scenario = find(run.scenario);
		if (scenario == null) {
			System.out.println("absent not written for Netty");
			return;
		}
		Measure.warming = true;
		warmUp(run, scenario);
		Measure.warming = false;
		Measure.settle(run.tickNs);
		Measure.live();
		Measure.forgetPeak();
		StringBuilder line = new StringBuilder("outcome");
		for (double figure : scenario.run(run))
			line.append(Double.isNaN(figure) ? " -" : String.format(Locale.ROOT, " %.6g", figure));
		System.out.println(line);
		System.exit(0);
	}
}
