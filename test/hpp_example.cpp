/* SPDX-License-Identifier: BSD-2-Clause */
/* Around the example at the head of a C++ header, which test/hpp.sh puts into use.inc, and into sleep.inc if it sleeps. */
#include EXAMPLE

#include <cstdio>
#include <future>

using namespace std::chrono_literals;

struct user {
	bool online()
	{
		return true;
	}
	std::error_code mail(std::string_view)
	{
		return {};
	}
	void give_up()
	{
	}

	std::error_code use()
	{
#include "use.inc"
		return error;
	}

	std::error_code error; /* if the example has none */
};

#ifdef SLEEPS
struct job : std::future<void> {
	struct promise_type : std::promise<void> {
		job get_return_object()
		{
			return { get_future() };
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_never final_suspend() noexcept
		{
			return {};
		}
		void return_void()
		{
			set_value();
		}
		void unhandled_exception()
		{
			set_exception(std::current_exception());
		}
	};
};

/* It has no variables: g++ 12 keeps the operand of co_await in the coroutine by chance where it has some. */
static job sleep_once(hwt::timer &timer, std::stop_token token)
{
#include "sleep.inc"
	std::puts("slept");
}

static void sleep_twice()
{
	hwt::timer timer(1ms);
	std::stop_source source;

	sleep_once(timer, source.get_token()).get();
	job stopped = sleep_once(timer, source.get_token());
	source.request_stop();
	stopped.get();
}
#endif

int main()
{
#ifdef SLEEPS
	sleep_twice();
#endif
	std::error_code error = user().use();

	std::puts(error ? error.message().c_str() : "used");
	return 0;
}
