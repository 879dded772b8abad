/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_store.hpp, as its users see it: on SQLite, or on the database that HWT_STORE_URL names. */
#include <hwt_store.hpp>

#include "test.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <poll.h>
#include <unistd.h>

using namespace std::chrono_literals;

/* A test that hangs ends with a signal. */
__attribute__((constructor)) static void limit_time()
{
	alarm(3600);
}

template <class Condition> static bool wait_for(Condition condition)
{
	const auto end = std::chrono::steady_clock::now() + 300s;

	while (!condition()) {
		if (std::chrono::steady_clock::now() > end)
			return false;
		std::this_thread::sleep_for(1ms);
	}
	return true;
}

/* What it says when the machine stands still for too long, and nothing has happened: once more. */
template <class Call> static std::error_code patiently(Call call)
{
	std::error_code error;

	CHECK(wait_for([&] {
		error = call();
		return error != std::errc::resource_unavailable_try_again;
	}));
	return error;
}

#define GETS(...) patiently([&] { return __VA_ARGS__; })

/*
 * A fresh database, or fresh tables.
 */

static std::string folder;
static std::string prefix;
static std::string warned;
static std::mutex warned_lock;

static void warn(void *, const char *message)
{
	std::lock_guard<std::mutex> held(warned_lock);

	warned += message;
	warned += '\n';
}

static bool was_warned(const char *text)
{
	std::lock_guard<std::mutex> held(warned_lock);

	return warned.find(text) != std::string::npos;
}

static hwt_store_config config()
{
	hwt_store_config config = hwt::store_defaults();

	config.schema = prefix.c_str();
	config.lease_ns = HWT_S(600); /* longer than a machine stands still */
	config.warn = warn;
	return config;
}

static std::string url()
{
	const char *given = std::getenv("HWT_STORE_URL");

	return given != nullptr ? given : "sqlite:" + folder + "/" + prefix + ".db";
}

static void make_fresh()
{
	static char name[] = "/tmp/hwt-store-cpp-XXXXXX";
	static char number = 'a';

	if (folder.empty()) {
		REQUIRE(mkdtemp(name) != nullptr);
		folder = name;
		std::atexit([] { std::filesystem::remove_all(folder); });
	}
	prefix = std::string("cpp_") + number++;
	warned.clear();
}

static hwt::store open_fresh()
{
	make_fresh();
	return hwt::store(url(), config());
}

static hwt_store_info info_of(hwt::store &store, const hwt::which &which)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	CHECK(!GETS(store.get(which, info)));
	return info;
}

static bool is_gone(hwt::store &store, const hwt::which &which)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	return wait_for([&] { return store.get(which, info) == std::errc::no_such_file_or_directory; });
}

static std::int64_t put(hwt::store &store, const hwt::spec &spec)
{
	std::int64_t id = 0;

	CHECK(!GETS(store.put(spec, &id)));
	return id;
}

static void start(hwt::store &store)
{
	CHECK(!GETS(store.start()));
}

/* With a short back-off. */
static hwt_store_kind quick(const char *name)
{
	hwt_store_kind kind = hwt::kind(name);

	kind.backoff_ns = HWT_MS(1);
	return kind;
}

/*
 * Tests
 */

TEST(what_cannot_be_opened_throws_its_error_and_its_text)
{
	std::error_code code;
	std::string what;

	try {
		hwt::store store("nonsense:x");
	} catch (const std::system_error &error) {
		code = error.code();
		what = error.what();
	}
	CHECK(code == std::errc::invalid_argument);
	CHECK(what.find("postgresql") != std::string::npos);
}

TEST(a_lambda_runs_with_what_was_put)
{
	hwt::store store = open_fresh();
	const std::string data("a\0b", 3);
	std::atomic<int> runs{ 0 };
	std::string seen;

	CHECK(!GETS(store.add(hwt::kind("a"), [&](const hwt_store_run &run) {
		seen = std::string(run.key) + ' ' + run.group + ' ' + std::string(hwt::data(run));
		runs++;
	})));
	start(store);
	const std::int64_t id = put(store, hwt::spec("a").data(data).key("order 17").group("tenant 9").in(1ms));
	CHECK(is_gone(store, id));
	CHECK_INT(runs, ==, 1);
	CHECK(seen == "order 17 tenant 9 " + data);
}

TEST(a_spec_says_all_that_the_c_call_takes)
{
	const auto due = std::chrono::system_clock::time_point() + std::chrono::hours(24) * 40000;
	hwt::store store = open_fresh();
	hwt::spec spec("a");
	hwt_store_info info;

	spec.key("k").at(due).every(1500ms).more.priority = -7;
	std::int64_t id = put(store, spec);
	info = info_of(store, { "a", "k" });
	CHECK_INT(info.id, ==, id);
	CHECK_INT(info.due_us, ==, INT64_C(40000) * 86400 * 1000000);
	CHECK_INT(info.period_ns, ==, HWT_MS(1500));
	CHECK_INT(info.priority, ==, -7);
	CHECK(GETS(store.put(spec, &id)) == std::errc::file_exists);
	CHECK_INT(id, ==, info.id);
	CHECK_INT(put(store, hwt::spec("a").key("k").cron("0 12 * * *").in(1h).replace()), ==, id);
	info = info_of(store, id);
	CHECK(std::string(info.schedule) == "0 12 * * *");
	CHECK_INT(info.period_ns, ==, 0);
	CHECK(GETS(store.put(hwt::spec("a").key("k").revive())) == std::errc::file_exists);
	/* A later in counts, not an at before; and a period of 0 is not once. */
	CHECK_INT(info_of(store, put(store, hwt::spec("a").at(due).in(1h))).due_us, <,
		  INT64_C(30000) * 86400 * 1000000);
	CHECK(GETS(store.put(hwt::spec("a").every(0s))) == std::errc::invalid_argument);
	/* A microsecond that has begun is not over. */
	CHECK_INT(info_of(store, put(store, hwt::spec("a").at(due + 1ns))).due_us, ==,
		  INT64_C(40000) * 86400 * 1000000 + 1);
}

template <class Duration> static std::int64_t since_1970(Duration since)
{
	return hwt::detail::since_1970(std::chrono::time_point<std::chrono::system_clock, Duration>(since));
}

TEST(a_time_is_rounded_up_and_what_is_not_within_1970_to_9999_is_refused)
{
	using hours = std::chrono::hours;
	hwt::store store = open_fresh();

	CHECK_INT(since_1970(hours::min()), ==, INT64_MIN);
	CHECK_INT(since_1970(hours::max()), ==, INT64_MAX);
	CHECK_INT(since_1970(std::chrono::microseconds::min()), ==, INT64_MIN);
	CHECK_INT(since_1970(std::chrono::nanoseconds::min()), ==, INT64_MIN);
	CHECK_INT(since_1970(std::chrono::nanoseconds(-1)), ==, 0);
	CHECK_INT(since_1970(std::chrono::nanoseconds(1)), ==, 1);
	CHECK_INT(since_1970(std::chrono::duration<float>(-1e30f)), ==, INT64_MIN);
	CHECK_INT(since_1970(std::chrono::duration<double>(std::nan(""))), ==, INT64_MAX);
	CHECK_INT(since_1970(hours(70389528)), ==, INT64_C(253402300800000000));
	for (hours wrong : { hours::min(), hours(-1), hours(70389529), hours::max() }) {
		const std::chrono::time_point<std::chrono::system_clock, hours> at(wrong);

		CHECK(GETS(store.put(hwt::spec("a").at(at))) == std::errc::invalid_argument);
		CHECK(GETS(store.reschedule(hwt::which::whole("a"), at)) == std::errc::invalid_argument);
	}
}

TEST(a_text_with_a_zero_inside_is_refused)
{
	const std::string cut("a\0b", 3);
	hwt::store store = open_fresh();

	(void)put(store, hwt::spec("a").key("a").group("a").in(1h));
	CHECK(GETS(store.put(hwt::spec(cut))) == std::errc::invalid_argument);
	CHECK(GETS(store.put(hwt::spec("a").key(cut))) == std::errc::invalid_argument);
	CHECK(GETS(store.put(hwt::spec("a").group(cut))) == std::errc::invalid_argument);
	CHECK(GETS(store.put(hwt::spec("a").cron(std::string("@daily\0", 7)))) == std::errc::invalid_argument);
	CHECK(GETS(store.put(hwt::spec("a").cron("@daily", std::string("UTC\0", 4)))) == std::errc::invalid_argument);
	CHECK(GETS(store.cancel({ "a", cut, "a" })) == std::errc::invalid_argument);
	CHECK(GETS(store.cancel(hwt::which::all("a", cut))) == std::errc::invalid_argument);
	CHECK(hwt_store_error()[0] != '\0');
}

TEST(which_names_one_all_of_a_group_or_all_of_the_kind)
{
	hwt::store store = open_fresh();
	std::uint64_t n = 0;

	CHECK(!GETS(store.put({ hwt::spec("a").in(1h), hwt::spec("a").in(1h).key("k"), hwt::spec("a").in(1h).group("g"),
				hwt::spec("a").in(1h).group("g").key("k"), hwt::spec("a").in(1h).group("h") })));
	CHECK(!GETS(store.reschedule({ "a", "k", "g" }, 2h, &n)));
	CHECK_INT(n, ==, 1);
	CHECK(!GETS(
	    store.reschedule(hwt::which::all("a", "g"), hwt::when(std::chrono::system_clock::time_point() + 1us), &n)));
	CHECK_INT(n, ==, 2);
	CHECK_INT(info_of(store, { "a", "k", "g" }).due_us, ==, 1);
	CHECK(!GETS(store.reschedule({ "a", "k", "g" }, std::chrono::system_clock::time_point(), &n)));
	CHECK_INT(info_of(store, { "a", "k", "g" }).due_us, ==, 1);
	hwt::which failed = hwt::which::whole("a");
	failed.more.states = 1u << HWT_STORE_FAILED;
	CHECK(!GETS(store.cancel(failed, &n)));
	CHECK_INT(n, ==, 0);
	CHECK(!GETS(store.cancel({ "a", "k" })));
	CHECK(!GETS(store.cancel(hwt::which::all("a"), &n)));
	CHECK_INT(n, ==, 1);
	CHECK(!GETS(store.cancel(hwt::which::whole("a"), &n)));
	CHECK_INT(n, ==, 3);
	CHECK(GETS(store.cancel(INT64_C(1) << 40)) == std::errc::no_such_file_or_directory);
}

TEST(each_calls_a_lambda_which_may_end_it_or_throw)
{
	hwt::store store = open_fresh();
	std::string seen;
	bool thrown = false;
	int n = 0;

	for (const char *word : { "one", "two", "three" })
		(void)put(store, hwt::spec("a").data(word).in(1h));
	hwt::which with_data = hwt::which::all("a");
	with_data.more.states = 1u << HWT_STORE_PENDING | HWT_STORE_WITH_DATA;
	CHECK(!store.each(with_data, [&](const hwt_store_info &info) {
		seen.append(static_cast<const char *>(info.data), info.len);
		return seen.size() < 6;
	}));
	CHECK(seen == "onetwo");
	try {
		(void)store.each(with_data, [&](const hwt_store_info &) -> bool {
			n++;
			throw std::runtime_error("enough");
		});
	} catch (const std::runtime_error &) {
		thrown = true;
	}
	CHECK(thrown);
	CHECK_INT(n, ==, 1);
}

TEST(kinds_groups_and_statistics_say_why_what_is_due_waits)
{
	hwt::store store = open_fresh();
	hwt_store_stats stats = HWT_STORE_STATS_INIT;
	std::string kinds, groups;
	bool thrown = false;

	CHECK(!GETS(store.add(quick("a"), [](const hwt_store_run &) {})));
	CHECK(!GETS(hwt::detail::error(hwt_store_pause(store.native(), "a", "g"))));
	(void)put(store, hwt::spec("a").group("g"));
	(void)put(store, hwt::spec("b").in(1h));
	start(store);
	CHECK(wait_for([&] { return !store.stats("a", stats) && stats.waiting[HWT_STORE_WAITS_PAUSE] == 1; }));
	CHECK(!store.stats(stats));
	CHECK_INT(stats.waiting[HWT_STORE_WAITS_PAUSE], ==, 1);
	CHECK(store.stats("c", stats) == std::errc::no_such_file_or_directory);
	CHECK(!GETS(store.each_group("a", [&](const hwt_store_group_info &info) {
		groups += std::string(info.group) + (info.paused ? " paused" : "");
		return true;
	})));
	CHECK(groups == "g paused");
	CHECK(GETS(store.each_group(std::string("a\0b", 3), [](const hwt_store_group_info &) { return true; })) ==
	      std::errc::invalid_argument);
	CHECK(!GETS(store.each_kind([&](const hwt_store_kind_info &info) {
		kinds += info.kind + std::to_string(info.processes) + " ";
		return info.kind[0] != 'b';
	})));
	CHECK(kinds == "a1 b0 ");
	try {
		(void)GETS(
		    store.each_kind([](const hwt_store_kind_info &) -> bool { throw std::runtime_error("enough"); }));
	} catch (const std::runtime_error &) {
		thrown = true;
	}
	CHECK(thrown);
}

/* Each attempt of one timeout answers differently; the last one is FAILED, and its error is kept. */
TEST(a_task_answers_with_a_number_an_error_code_or_what_its_run_returns)
{
	hwt::store store = open_fresh();
	std::string attempts;

	CHECK(!GETS(store.add(quick("a"), [&](const hwt_store_run &run) -> hwt::answer {
		const std::size_t before = attempts.size();

		attempts += static_cast<char>('0' + run.attempt);
		switch (before) {
		case 0:
			return EAGAIN;
		case 1:
			return make_error_code(std::errc::timed_out);
		case 2:
			return hwt::again(run, 1ms);
		case 3:
			return std::error_code();
		case 4:
			return hwt_store_end_series(&run);
		default:
			return hwt_store_give_up(&run, "no use");
		}
	})));
	start(store);
	CHECK(is_gone(store, put(store, hwt::spec("a"))));
	CHECK(attempts == "1233"); /* again is no attempt */
	CHECK(is_gone(store, put(store, hwt::spec("a").every(1h))));
	const std::int64_t id = put(store, hwt::spec("a"));
	CHECK(wait_for([&] { return info_of(store, id).state == HWT_STORE_FAILED; }));
	CHECK(std::string(info_of(store, id).error) == "no use");
}

TEST(what_a_task_throws_fails_its_run_and_is_told_to_warn)
{
	hwt::store store = open_fresh();
	hwt_store_kind kind = quick("a");
	std::int64_t id;

	kind.max_attempts = 1;
	CHECK(!GETS(store.add(kind, [](const hwt_store_run &run) {
		switch (run.len) {
		case 0:
			throw std::system_error(make_error_code(std::errc::no_space_on_device), "system");
		case 1:
			throw std::bad_alloc();
		case 2:
			throw std::runtime_error("what it says");
		default:
			throw 4;
		}
	})));
	start(store);
	const std::system_error full(make_error_code(std::errc::no_space_on_device), "system");
	for (const std::string &error : std::vector<std::string>{ full.what(), std::bad_alloc().what(), "what it says",
								  std::strerror(ECANCELED) }) {
		static std::string data;

		id = put(store, hwt::spec("a").data(data));
		CHECK(wait_for([&] { return info_of(store, id).state == HWT_STORE_FAILED; }));
		CHECK(std::string(info_of(store, id).error) == error);
		data += 'x';
	}
	CHECK(was_warned("what it says"));
	CHECK(was_warned("system"));
}

/* Counts how many exist. */
struct counted {
	explicit counted(std::atomic<int> &alive) : alive_(&alive)
	{
		alive++;
	}
	counted(const counted &other) : alive_(other.alive_)
	{
		++*alive_;
	}
	counted &operator=(const counted &) = delete;
	~counted()
	{
		--*alive_;
	}
	void operator()(const hwt_store_run &) const
	{
	}

      private:
	std::atomic<int> *alive_;
};

TEST(a_task_lives_as_long_as_its_store_which_can_be_moved)
{
	std::atomic<int> alive{ 0 };
	{
		hwt::store first = open_fresh();

		CHECK(!GETS(first.add(quick("a"), counted(alive))));
		const int copies = alive;
		CHECK_INT(copies, >=, 1);
		CHECK(GETS(first.add(quick("a"), counted(alive))) == std::errc::file_exists);
		CHECK_INT(alive, ==, copies);
		CHECK(first.add(quick("b"), std::function<void(const hwt_store_run &)>()) ==
		      std::errc::invalid_argument);
		start(first);
		hwt::store store(std::move(first));
		CHECK(is_gone(store, put(store, hwt::spec("a"))));
		CHECK_INT(alive, ==, copies);
		store.stop();
		CHECK_INT(alive, ==, copies);
	}
	CHECK_INT(alive, ==, 0);
}

/* The next one, which comes. */
static hwt::pulled pull(hwt::store &store)
{
	hwt::pulled run;
	int fd = -1;

	CHECK(!store.fd(fd));
	CHECK(wait_for([&] {
		pollfd poller{};

		poller.fd = fd;
		poller.events = POLLIN;
		return poll(&poller, 1, 1000) == 1 && !store.next(run);
	}));
	REQUIRE(bool(run));
	return run;
}

TEST(pulled_runs_are_owned_and_fail_without_an_end)
{
	hwt::store store = open_fresh();
	hwt::pulled none;

	CHECK(!GETS(store.add(quick("a"))));
	CHECK(store.next(none) == std::errc::operation_canceled);
	CHECK(!none && none.end(0) == std::errc::invalid_argument);
	start(store);
	CHECK(store.next(none) == std::errc::resource_unavailable_try_again);
	const std::int64_t id = put(store, hwt::spec("a").data("text"));
	{
		hwt::pulled run = pull(store);

		CHECK_INT(run->id, ==, id);
		CHECK(hwt::data(*run) == "text");
	}
	hwt::pulled run = pull(store);
	CHECK_INT(run->attempt, ==, 2);
	CHECK(std::string(info_of(store, id).error) == std::strerror(ECANCELED));
	hwt::pulled moved(std::move(run));
	CHECK(!run && moved);
	std::thread([&] { CHECK(!moved.end(hwt::again(*moved, 0s))); }).join();
	CHECK(!moved);
	run = pull(store);
	CHECK_INT(run->attempt, ==, 2);
	CHECK(!run.end({}));
	CHECK(is_gone(store, id));
}

TEST(a_pulled_run_that_outlives_its_store_is_over)
{
	hwt::pulled run;
	{
		hwt::store store = open_fresh();

		CHECK(!GETS(store.add(quick("a"))));
		start(store);
		(void)put(store, hwt::spec("a"));
		run = pull(store);
	}
	CHECK_INT(run.end({}).value(), ==, ESTALE);
	CHECK(!run);
}

/* What is put on the connection of a run exists if the run is done. */
TEST(put_on_is_part_of_the_transaction_of_its_run)
{
	hwt::store store = open_fresh();

	CHECK(!patiently([&] {
		hwt_store_kind kind = quick("a");

		kind.mode = HWT_STORE_TRANSACTION;
		return store.add(kind, [&](const hwt_store_run &run) -> hwt::answer {
			const std::string key = "attempt " + std::to_string(run.attempt);
			std::error_code error = store.put_on(run.connection, hwt::spec("b").key(key).in(1h));

			if (error)
				return error;
			if (run.attempt == 1)
				throw std::runtime_error("rolled back");
			return 0;
		});
	}));
	(void)put(store, hwt::spec("b").key("there").in(1h)); /* makes the kind */
	start(store);
	CHECK(is_gone(store, put(store, hwt::spec("a"))));
	CHECK(!GETS(store.cancel({ "b", "attempt 2" })));
	CHECK(GETS(store.cancel({ "b", "attempt 1" })) == std::errc::no_such_file_or_directory);
}

TEST(a_store_tells_of_each_end_and_keeps_what_is_due)
{
	std::mutex lock;
	std::vector<std::pair<std::int64_t, hwt_store_became>> told;
	std::string error;
	make_fresh();
	hwt::store store(
	    url(),
	    [&](const hwt_store_ended &ended) {
		    const std::lock_guard<std::mutex> guard(lock);

		    told.emplace_back(ended.run->id, ended.became);
		    error = ended.error ? ended.error : "";
	    },
	    config());
	hwt_store_kind kind = quick("a");

	kind.max_attempts = 1;
	CHECK(!patiently([&] { return store.add(kind, [](const hwt_store_run &) { return EIO; }); }));
	const std::int64_t series = put(store, hwt::spec("a").key("k").every(1h).in(1h).keep_due());
	CHECK(put(store, hwt::spec("a").key("k").every(2h).keep_due()) == series);
	CHECK_INT(info_of(store, series).period_ns, ==, std::chrono::nanoseconds(2h).count());
	const std::int64_t id = put(store, hwt::spec("a"));
	start(store);
	CHECK(wait_for([&] {
		const std::lock_guard<std::mutex> guard(lock);

		return told.size() == 1;
	}));
	CHECK(told[0].first == id && told[0].second == HWT_STORE_BECAME_FAILED);
	CHECK(error == std::strerror(EIO));
}

TEST_MAIN()
