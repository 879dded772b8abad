/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * C++: a lambda as a task, through arg.  schedule() owns it until it has run or was cancelled, whichever comes first.
 *
 *     $ build/examples/cpp
 *     a moment later: 42
 *     cancelled in time
 */
#include <hwt.h>

#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

namespace
{

void check(int rc, const char *what)
{
	if (rc != 0)
		throw std::system_error(rc, std::generic_category(), what);
}

class Timer
{
      public:
	using Task = std::function<void()>;

	/* What names a timeout, and what it would have run. */
	struct Handle {
		hwt_timeout timeout;
		Task *task;
	};

	explicit Timer(const hwt_config &config)
	{
		check(hwt_timer_create(&timer, &config), "create");
	}
	Timer(const Timer &) = delete;
	Timer &operator=(const Timer &) = delete;

	/* What the stop hands back is freed, too: nothing else would. */
	~Timer()
	{
		hwt_unprocessed left;

		hwt_timer_stop(timer, nullptr);
		while (hwt_timer_next_unprocessed(timer, &left))
			delete static_cast<Task *>(left.arg);
		hwt_timer_destroy(timer);
	}

	Handle schedule(int64_t delay_ns, Task task)
	{
		auto owned = std::make_unique<Task>(std::move(task));
		Handle handle{ HWT_TIMEOUT_NONE, owned.get() };

		check(hwt_new_timeout(timer, run, owned.get(), delay_ns, &handle.timeout), "schedule");
		owned.release(); /* run() or cancel() has it now, perhaps already */
		return handle;
	}

	/* true: it will not run.  Only who gets true may touch the task, and does not need to. */
	static bool cancel(const Handle &handle)
	{
		if (hwt_cancel(handle.timeout) != 0)
			return false;
		delete handle.task;
		return true;
	}

      private:
	/* An exception must not leave a task: there is only C around it. */
	static void run(hwt_timeout, void *arg) noexcept
	{
		std::unique_ptr<Task> task(static_cast<Task *>(arg));

		(*task)();
	}

	hwt_timer *timer = nullptr;
};

} // namespace

int main()
{
	hwt_config config = HWT_CONFIG_INIT;
	std::condition_variable changed;
	std::mutex mutex;
	bool done = false;
	int answer = 42;

	config.tick_duration_ns = HWT_MS(1);
	Timer timer(config);
	timer.schedule(HWT_MS(20), [&] {
		std::lock_guard<std::mutex> lock(mutex);
		std::printf("a moment later: %d\n", answer);
		done = true;
		changed.notify_one();
	});
	Timer::Handle handle = timer.schedule(HWT_S(3600), [] { std::puts("never"); });
	timer.schedule(HWT_S(3600), [] { std::puts("never either"); });

	std::unique_lock<std::mutex> lock(mutex);
	changed.wait(lock, [&] { return done; });
	std::puts(Timer::cancel(handle) ? "cancelled in time" : "too late");
	return 0;
}
