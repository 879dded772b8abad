/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * C++17: callables as tasks, and timeouts that end with their objects.
 *
 *     $ build/examples/cpp
 *     a moment later: 42
 *     cancelled in time
 */
#include <hwt.hpp>

#include <cstdio>
#include <future>
#include <memory>
#include <string>

using namespace std::chrono_literals;

namespace
{

/* Closes itself when it has been idle.  The timeout is the last member: its end waits for close(), then the rest goes. */
class connection
{
      public:
	connection(hwt::timer &timer, std::string peer) : peer_(std::move(peer))
	{
		std::error_code error = timer.schedule(
		    10min, [this] { close(); }, idle_);

		if (error)
			throw std::system_error(error, "connection");
	}

	void packet()
	{
		if (idle_.reschedule(10min) == std::errc::no_such_file_or_directory)
			std::printf("%s has been closed\n", peer_.c_str());
	}

      private:
	void close()
	{
		std::printf("%s is idle\n", peer_.c_str());
	}

	std::string peer_;
	hwt::timeout idle_;
};

} // namespace

int main()
{
	hwt::timer timer(1ms); /* before what uses it: destroyed after that */
	auto answer = std::make_unique<int>(42);
	std::promise<void> said;
	hwt::timeout never;

	/* A callable may own things: here it is moved into the timer, and destroyed after its run. */
	std::error_code error = timer.schedule(20ms, [&said, answer = std::move(answer)] {
		std::printf("a moment later: %d\n", *answer);
		said.set_value();
	});
	if (!error)
		error = timer.schedule(
		    1h, [] { std::puts("never"); }, never);
	if (error)
		return 1;
	{
		connection one(timer, "the peer");

		one.packet();
	}
	said.get_future().wait();
	std::puts(never.cancel() ? "too late" : "cancelled in time");
	return 0;
}
