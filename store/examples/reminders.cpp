/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * C++17: lambdas as tasks, a series, and what is cancelled and moved.
 *
 *     $ build/examples/reminders sqlite:reminders.db      or postgresql://...
 *     to alice: your trial ends tomorrow (attempt 2)
 *     carol waits until 2100
 *     bob was cancelled
 */
#include <hwt_store.hpp>

#include <cstdio>
#include <future>

using namespace std::chrono_literals;

/* The first server that is asked is busy. */
static std::error_code mail(const hwt_store_run &run)
{
	return run.attempt == 1 ? make_error_code(std::errc::device_or_resource_busy) : std::error_code();
}

static int remind(const char *url)
{
	std::promise<void> done;
	hwt::store store(url);
	hwt_store_kind kind = hwt::kind("remind");
	std::error_code error;

	kind.backoff_ns = HWT_MS(10);
	error = store.add(kind, [&](const hwt_store_run &run) -> hwt::answer {
		if (const std::error_code failed = mail(run))
			return failed; /* and again, after a back-off */
		std::printf("to %s: %s (attempt %u)\n", run.key, std::string(hwt::data(run)).c_str(), run.attempt);
		done.set_value();
		return {};
	});
	if (!error)
		error = store.start();
	if (!error) /* both or none */
		error = store.put(
		    { hwt::spec("remind").key("bob").every(24h).in(1h),
		      hwt::spec("remind").key("carol").at(std::chrono::system_clock::time_point() + 24h * 47482) });
	if (!error)
		error = store.put(hwt::spec("remind").key("alice").data("your trial ends tomorrow").in(50ms).replace());
	if (error) {
		std::fprintf(stderr, "%s\n", hwt_store_error());
		return 1;
	}
	done.get_future().wait();
	error = store.each(hwt::which::all("remind"), [](const hwt_store_info &info) {
		if (info.period_ns == 0 && info.due_us > INT64_C(4102358400000000))
			std::printf("%s waits until 2100\n", info.key);
		return true;
	});
	if (!error)
		error = store.cancel({ "remind", "bob" });
	std::printf("bob was %s\n", error ? hwt_store_error() : "cancelled");
	return 0;
}

int main(int argc, char **argv)
{
	try {
		return remind(argc > 1 ? argv[1] : "sqlite:reminders.db");
	} catch (const std::system_error &failed) {
		std::fprintf(stderr, "reminders: %s\n", failed.what());
		return 1;
	}
}
