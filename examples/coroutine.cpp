/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * C++20: a coroutine that tries again and again, with pauses that grow, until it is told to stop.  It holds no thread
 * while it sleeps.
 *
 *     $ build/examples/coroutine
 *     attempt 1
 *     attempt 2
 *     attempt 3
 *     connected
 *     another one was stopped
 */
#include <hwt.hpp>

#include <cstdio>
#include <future>

#ifdef HWT_COROUTINES

using namespace std::chrono_literals;

namespace
{

/* A coroutine whose result is a std::future.  A program that uses a library of coroutines takes a type of that. */
struct job {
	struct promise_type {
		std::promise<bool> result;

		job get_return_object()
		{
			return { result.get_future() };
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_never final_suspend() noexcept
		{
			return {};
		}
		void return_value(bool value)
		{
			result.set_value(value);
		}
		void unhandled_exception()
		{
			result.set_exception(std::current_exception());
		}
	};

	std::future<bool> result;
};

job connect(hwt::timer &timer, std::chrono::milliseconds pause, std::stop_token token)
{
	for (int attempt = 1;; attempt++) {
		std::printf("attempt %d\n", attempt);
		if (attempt == 3) { /* somebody answers */
			std::puts("connected");
			co_return true;
		}
		if (auto error = co_await timer.sleep_for(pause, token))
			co_return false; /* stopped, or the timer was */
		pause *= 2;
	}
}

job wait_long(hwt::timer &timer, std::stop_token token)
{
	auto error = co_await timer.sleep_for(1h, token);

	co_return !error;
}

} // namespace

int main()
{
	hwt::timer timer(1ms);
	std::stop_source source;
	job one = connect(timer, 10ms, {}), other = wait_long(timer, source.get_token());

	if (!one.result.get())
		return 1;
	source.request_stop();
	if (!other.result.get())
		std::puts("another one was stopped");
	return 0;
}

#else

int main()
{
	std::puts("this compiler has no coroutines");
	return 77;
}

#endif
