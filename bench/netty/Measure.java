/* SPDX-License-Identifier: BSD-2-Clause */

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.locks.LockSupport;

/** What the scenarios measure with, as bench/measure.c: CPU time, memory, settling, random numbers, teams. */
final class Measure {
	static final long MS = 1_000_000L, S = 1_000_000_000L;

	private Measure() {
	}

	static void fail(String why) {
		System.out.println("wrong " + why);
		System.exit(0);
	}

	static void absent(String why) {
		System.out.println("absent " + why);
		System.exit(0);
	}

	static void sleepUntil(long whenNs) {
		for (long left = whenNs - System.nanoTime(); left > 0; left = whenNs - System.nanoTime())
			LockSupport.parkNanos(left);
	}

	static void sleepNs(long ns) {
		sleepUntil(System.nanoTime() + ns);
	}

	private static String read(Path path) {
		try {
			return Files.readString(path);
		} catch (IOException gone) {
			return ""; /* a thread that has ended */
		}
	}

	private static long field(String text, String name) {
		int at = text.indexOf(name);
		return at < 0 ? 0 : Long.parseLong(text.substring(at + name.length()).strip().split("\\s")[0]);
	}

	private interface Sum {
		long of(Path task);
	}

	private static long overTasks(Sum sum) {
		long all = 0;
		try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
			for (Path task : tasks)
				all += sum.of(task);
		} catch (IOException e) {
			fail("/proc/self/task: " + e.getMessage());
		}
		return all;
	}

	private static long cpu(Path folder) {
		String text = read(folder.resolve("schedstat"));
		return text.isEmpty() ? 0 : Long.parseLong(text.split(" ")[0]);
	}

	/** CPU time of the calling thread. */
	static long threadCpuNs() {
		return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
	}

	/**
	 * CPU time of all threads but the calling one, the collector's and the compiler's included.  The kernel brings
	 * this file up to date when a thread is switched, so the calling thread's must come from there as well.
	 */
	static long othersCpuNs() {
		return overTasks(Measure::cpu) - cpu(Path.of("/proc/thread-self"));
	}

	static long switches() {
		return overTasks(task -> field(read(task.resolve("status")), "\nvoluntary_ctxt_switches:"));
	}

	static long rss() {
		return field(read(Path.of("/proc/self/status")), "VmRSS:") * 1024;
	}

	static long rssPeak() {
		return field(read(Path.of("/proc/self/status")), "VmHWM:") * 1024;
	}

	/** Makes the peak begin again. */
	static void forgetPeak() {
		try {
			Files.writeString(Path.of("/proc/self/clear_refs"), "5");
		} catch (IOException kept) {
			/* then the peak of the warm-up counts, which is small */
		}
	}

	/** Bytes of the heap that are in use; what is not reachable has been collected. */
	static long live() {
		if (!warming)
			System.gc();
		return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
	}

	/** While it warms up nothing is measured, and nothing has to have come to rest. */
	static boolean warming;

	static void settle(long tickNs) {
		if (warming) {
			sleepNs(tickNs);
			return;
		}
		long window = Math.max(tickNs, 20 * MS), limit = System.nanoTime() + 5 * S;
		sleepNs(2 * tickNs + 10 * MS);
		for (int quiet = 0; quiet < 2 && System.nanoTime() < limit;) {
			long begin = System.nanoTime(), cpu = othersCpuNs();
			sleepNs(window);
			quiet = othersCpuNs() - cpu < (System.nanoTime() - begin) / 5 ? quiet + 1 : 0;
		}
	}

	/** xorshift64*. */
	static final class Rng {
		private long state;

		Rng(long seed) {
			state = (seed + 1) * 0x9E3779B97F4A7C15L | 1;
		}

		long next() {
			state ^= state >>> 12;
			state ^= state << 25;
			state ^= state >>> 27;
			return state * 0x2545F4914F6CDD1DL;
		}

		long span(long spanNs) {
			return (next() >>> 40) * (spanNs >> 4) >> 20;
		}

		int below(int limit) {
			return (int) Long.remainderUnsigned(next(), limit);
		}
	}

	/** One of a team's threads, and its share. */
	static final class Member {
		int index, first, end;
		Rng rng;
		long accepted, cancelled, beginNs, endNs, cpuNs;
	}

	interface Work {
		void on(Member me);
	}

	/** Threads that do one phase of work together, again and again. */
	static final class Team {
		private final Member[] members;
		private final CyclicBarrier barrier;
		private volatile Work work;
		long elapsedNs, cpuNs, accepted, cancelled; /* of the last phase; the counts: of all so far */

		Team(int size, int count, long seed) {
			members = new Member[size];
			barrier = new CyclicBarrier(size + 1);
			for (int i = 0; i < size; i++) {
				Member member = members[i] = new Member();
				member.index = i;
				member.first = (int) ((long) count * i / size);
				member.end = (int) ((long) count * (i + 1) / size);
				member.rng = new Rng(seed * 1000 + i);
				Thread thread = new Thread(() -> live(member));
				thread.setDaemon(true);
				thread.start();
			}
		}

		private void await() {
			try {
				barrier.await();
			} catch (InterruptedException | BrokenBarrierException e) {
				fail("barrier: " + e);
			}
		}

		private void live(Member me) {
			for (;;) {
				await();
				if (work == null)
					return;
				long cpu = threadCpuNs();
				me.beginNs = System.nanoTime();
				work.on(me);
				me.endNs = System.nanoTime();
				me.cpuNs = threadCpuNs() - cpu;
				await();
			}
		}

		void phase(Work what) {
			long begin = Long.MAX_VALUE, end = Long.MIN_VALUE;
			work = what;
			await();
			await();
			cpuNs = accepted = cancelled = 0;
			for (Member member : members) {
				begin = Math.min(begin, member.beginNs);
				end = Math.max(end, member.endNs);
				cpuNs += member.cpuNs;
				accepted += member.accepted;
				cancelled += member.cancelled;
			}
			elapsedNs = end - begin;
		}

		void end() {
			work = null;
			await();
		}
	}
}
