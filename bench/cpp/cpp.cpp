/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hwt.hpp adds to the C calls, and Boost.Asio's steady_timer beside it: one thread schedules for 30 s and cancels
 * at once, N pairs, in rounds that go around all ways.
 *
 *     c           hwt_new_timeout, hwt_cancel
 *     hpp         timer.schedule of [this], timeout.cancel(): inside of arg
 *     hpp-end     the same, ended by ~timeout
 *     c-block     malloc, hwt_new_timeout_ex with free as the finaliser, hwt_cancel
 *     hpp-block   timer.schedule of a callable of 32 bytes, cancel()
 *     asio        expires_after, async_wait of [this], cancel(), on one timer again and again
 *
 *     build/bench/cpp [-n pairs] [-r rounds] [way...]
 *
 * Prints the median of the rounds in nanoseconds a pair, the least and the largest, and the medians of the ratios to the
 * C way that does the same, taken round by round.
 */
#include <hwt.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#if __has_include(<boost/asio/steady_timer.hpp>)
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#define HAVE_ASIO 1
#endif

using namespace std::chrono_literals;

namespace
{

unsigned long runs; /* the task must never run */

void demand(bool good, const char *what)
{
	if (good)
		return;
	std::fprintf(stderr, "cpp: %s\n", what);
	std::exit(1);
}

void c_task(hwt_timeout, void *arg)
{
	++*static_cast<unsigned long *>(arg);
}

void c(hwt::timer &timer, unsigned long pairs)
{
	hwt_timeout timeout;

	for (unsigned long i = 0; i < pairs; i++) {
		demand(hwt_new_timeout(timer.native(), c_task, &runs, HWT_S(30), &timeout) == 0, "c: schedule");
		demand(hwt_cancel(timeout) == 0, "c: cancel");
	}
}

void hpp(hwt::timer &timer, unsigned long pairs)
{
	hwt::timeout timeout(hwt::ending::cancel);
	unsigned long *counter = &runs;

	for (unsigned long i = 0; i < pairs; i++) {
		demand(!timer.schedule(
			   30s, [counter] { ++*counter; }, timeout),
		       "hpp: schedule");
		demand(!timeout.cancel(), "hpp: cancel");
		timeout.let_go();
	}
}

void hpp_end(hwt::timer &timer, unsigned long pairs)
{
	unsigned long *counter = &runs;

	for (unsigned long i = 0; i < pairs; i++) {
		hwt::timeout timeout;

		demand(!timer.schedule(
			   30s, [counter] { ++*counter; }, timeout),
		       "hpp-end: schedule");
	}
}

struct block {
	std::array<unsigned long, 3> more;
	unsigned long *counter;
};

void c_block(hwt::timer &timer, unsigned long pairs)
{
	for (unsigned long i = 0; i < pairs; i++) {
		hwt_timeout timeout;
		hwt_spec spec = {};

		spec.size = sizeof(spec);
		spec.task = c_task;
		spec.when_ns = HWT_S(30);
		spec.release = std::free;
		spec.arg = std::malloc(sizeof(block));
		demand(spec.arg != nullptr, "c-block: malloc");
		*static_cast<block *>(spec.arg) = { { i, i, i }, &runs };
		demand(hwt_new_timeout_ex(timer.native(), &spec, &timeout) == 0, "c-block: schedule");
		demand(hwt_cancel(timeout) == 0, "c-block: cancel");
	}
}

void hpp_block(hwt::timer &timer, unsigned long pairs)
{
	hwt::timeout timeout(hwt::ending::cancel);

	for (unsigned long i = 0; i < pairs; i++) {
		block owned = { { i, i, i }, &runs };

		demand(!timer.schedule(
			   30s, [owned] { ++*owned.counter; }, timeout),
		       "hpp-block: schedule");
		demand(!timeout.cancel(), "hpp-block: cancel");
		timeout.let_go();
	}
}

#ifdef HAVE_ASIO
void asio(hwt::timer &, unsigned long pairs)
{
	boost::asio::io_context context(1);
	auto guard = boost::asio::make_work_guard(context);
	std::thread thread([&context] { context.run(); });
	boost::asio::steady_timer timer(context);
	unsigned long *counter = &runs;

	for (unsigned long i = 0; i < pairs; i++) {
		timer.expires_after(30s);
		timer.async_wait([counter](const boost::system::error_code &error) {
			if (!error)
				++*counter;
		});
		demand(timer.cancel() == 1, "asio: cancel");
	}
	guard.reset();
	thread.join();
}
#endif

struct way {
	const char *name, *beside; /* the way to which its ratio is taken */
	void (*run)(hwt::timer &timer, unsigned long pairs);
};

constexpr way ways[] = {
	{ "c", "c", c },
	{ "hpp", "c", hpp },
	{ "hpp-end", "c", hpp_end },
	{ "c-block", "c-block", c_block },
	{ "hpp-block", "c-block", hpp_block },
#ifdef HAVE_ASIO
	{ "asio", "hpp", asio },
#endif
};

double measure(const way &one, unsigned long pairs)
{
	hwt::timer timer(100ms);

	demand(!timer.start(), "start");
	one.run(timer, pairs / 10); /* to take its memory */
	auto began = std::chrono::steady_clock::now();
	one.run(timer, pairs);
	std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
	return took.count() / static_cast<double>(pairs);
}

double median(std::vector<double> figures)
{
	std::sort(figures.begin(), figures.end());
	return figures[figures.size() / 2];
}

} // namespace

int main(int argc, char **argv)
{
	std::map<std::string, std::vector<double>> figures;
	unsigned long pairs = 1000000, rounds = 5;
	int option;

	while ((option = getopt(argc, argv, "n:r:")) != -1) {
		if (option == 'n')
			pairs = std::strtoul(optarg, nullptr, 10);
		else if (option == 'r')
			rounds = std::strtoul(optarg, nullptr, 10);
		else
			return 2;
	}
	demand(pairs >= 10 && rounds >= 1, "at least 10 pairs and a round");
	auto wanted = [&](const way &one) {
		return optind == argc || std::find(argv + optind, argv + argc, std::string(one.name)) != argv + argc;
	};
	for (unsigned long round = 0; round < rounds; round++)
		for (const way &one : ways)
			if (wanted(one))
				figures[one.name].push_back(measure(one, pairs));
	demand(runs == 0, "a task ran");
	for (const way &one : ways) {
		if (!wanted(one))
			continue;
		const std::vector<double> &mine = figures[one.name], &beside = figures[one.beside];
		std::vector<double> ratios;

		for (std::size_t i = 0; i < mine.size() && i < beside.size(); i++)
			ratios.push_back(mine[i] / beside[i]);
		std::printf("%-10s %8.1f ns a pair  (%.1f .. %.1f)", one.name, median(mine),
			    *std::min_element(mine.begin(), mine.end()), *std::max_element(mine.begin(), mine.end()));
		if (!ratios.empty())
			std::printf("  %.2f x %s", median(ratios), one.beside);
		std::printf("\n");
	}
	return 0;
}
