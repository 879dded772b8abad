/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt.hpp, as its users see it: built as C++17 and as C++20, which adds the tests of coroutines.  Tests that need no
 * threads use a virtual clock.
 */
#include <hwt.hpp>

#include "test.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace std::chrono_literals;

/* A test that hangs ends with a signal. */
__attribute__((constructor)) static void limit_time()
{
	alarm(1800);
}

/* Memory: counts the allocations for callables of this base, and can refuse them. */

static std::atomic<unsigned> allocations;
static bool no_memory;

struct observed {
	static void *operator new(std::size_t size, const std::nothrow_t &) noexcept
	{
		allocations++;
		return no_memory ? nullptr : std::malloc(size);
	}
	static void operator delete(void *memory) noexcept
	{
		std::free(memory);
	}
};

/*
 * Timers and callables
 */

static hwt::timer virtual_timer()
{
	hwt_config config = hwt::defaults();

	config.tick_duration_ns = HWT_MS(1);
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	hwt::timer timer(config);
	REQUIRE(hwt_timer_advance(timer.native(), 0, nullptr) == 0);
	return timer;
}

static void tell(hwt::timer &timer, std::chrono::nanoseconds to)
{
	CHECK_INT(hwt_timer_advance(timer.native(), to.count(), nullptr), ==, 0);
}

template <class Condition> static bool wait_for(Condition condition)
{
	auto end = std::chrono::steady_clock::now() + 300s;

	while (!condition()) {
		if (std::chrono::steady_clock::now() > end)
			return false;
		std::this_thread::sleep_for(200us);
	}
	return true;
}

/* A callable, move-only and larger than a pointer.  Counts its runs, and the objects that have not been moved from. */
struct counts {
	std::atomic<int> alive{ 0 }, runs{ 0 };
};

class counted : public observed
{
      public:
	explicit counted(counts &of) : of_(&of)
	{
		of.alive++;
	}
	counted(counted &&other) noexcept : of_(std::exchange(other.of_, nullptr))
	{
	}
	counted(const counted &) = delete;
	~counted()
	{
		if (of_ != nullptr)
			of_->alive--;
		of_ = nullptr;
	}
	void operator()()
	{
		CHECK(of_ != nullptr);
		of_->runs++;
	}

	char more[40] = {};

      private:
	counts *of_;
};
static_assert(!std::is_copy_constructible_v<counted> && !hwt::detail::task<counted>::inside);

TEST(a_callable_may_take_its_handle_and_arm_itself_again)
{
	hwt::timer timer = virtual_timer();
	hwt::timeout out;
	struct {
		hwt::timeout &out;
		int runs = 0;
	} seen{ out };

	CHECK(!timer.schedule(
	    1ms,
	    [&seen](hwt::handle self) {
		    CHECK(self == seen.out);
		    if (++seen.runs < 3)
			    CHECK(!self.reschedule(5ms));
	    },
	    out));
	tell(timer, 1ms);
	CHECK_INT(seen.runs, ==, 1);
	tell(timer, 5ms);
	CHECK_INT(seen.runs, ==, 1);
	tell(timer, 6ms);
	tell(timer, 11ms);
	tell(timer, 50ms);
	CHECK_INT(seen.runs, ==, 3);
}

TEST(a_move_only_callable_is_destroyed_once_after_its_run)
{
	counts of;
	hwt::timer timer = virtual_timer();

	CHECK(!timer.schedule(1ms, counted(of)));
	CHECK_INT(of.alive, ==, 1);
	tell(timer, 1ms);
	CHECK_INT(of.runs, ==, 1);
	CHECK_INT(of.alive, ==, 0);
}

TEST(a_callable_that_is_refused_is_destroyed_and_nothing_else_changes)
{
	counts of;
	hwt::timer timer = virtual_timer();
	hwt::timeout out;

	CHECK(!timer.schedule(1h, counted(of), out));
	hwt::handle before = out;
	no_memory = true;
	CHECK(timer.schedule(1ms, counted(of), out) == std::errc::not_enough_memory);
	no_memory = false;
	CHECK(out == before && out.state() == HWT_PENDING);
	CHECK(!timer.stop());
	CHECK(timer.schedule(1ms, counted(of), out) == std::errc::operation_canceled);
	CHECK(out == before);
	CHECK_INT(of.alive, ==, 1);
}

TEST(what_a_callables_move_throws_passes_through_and_nothing_is_scheduled)
{
	struct thrower {
		explicit thrower(int)
		{
		}
		thrower(const thrower &)
		{
			throw 42;
		}
		void operator()()
		{
		}
		char room[32];
	};
	hwt::timer timer = virtual_timer();
	thrower one(1);
	bool thrown = false;

	try {
		CHECK(!timer.schedule(1ms, one));
	} catch (int number) {
		thrown = number == 42;
	}
	CHECK(thrown);
	CHECK_INT(timer.pending(), ==, 0);
}

TEST(a_small_callable_takes_no_memory_and_a_large_one_a_block)
{
	struct small : observed {
		int *runs;

		explicit small(int &of) : runs(&of)
		{
		}
		void operator()() const
		{
			++*runs;
		}
	};
	counts of;
	hwt::timer timer = virtual_timer();
	std::array<long, 4> large{ 1, 2, 3, 4 };
	long sum = 0;
	int runs = 0;
	auto lambda = [&runs] { runs++; };
	auto nothing = [] {};
	void (*function)() = nothing;

	static_assert(hwt::detail::task<decltype(lambda)>::inside && hwt::detail::task<decltype(nothing)>::inside &&
		      hwt::detail::task<decltype(function)>::inside);
	allocations = 0;
	CHECK(!timer.schedule(1ms, small(runs)));
	CHECK(!timer.schedule(1ms, lambda));
	CHECK(!timer.schedule(1ms, nothing));
	CHECK(!timer.schedule(1ms, function));
	CHECK_INT(allocations, ==, 0);
	CHECK(!timer.schedule(1ms, counted(of)));
	CHECK(!timer.schedule(1ms, [large, &sum] { sum = large[0] + large[1] + large[2] + large[3]; }));
	tell(timer, 1ms);
	CHECK_INT(allocations, ==, 1);
	CHECK(runs == 2 && of.runs == 1 && sum == 10);
}

TEST(a_small_callable_that_changes_itself_keeps_its_state_between_runs)
{
	hwt::timer timer = virtual_timer();
	static int last;

	CHECK(!timer.schedule_every(1ms, 1ms, [n = 0](hwt::handle self) mutable {
		last = ++n;
		if (n == 3)
			self.cancel();
	}));
	for (std::chrono::milliseconds now = 1ms; now < 10ms; now += 1ms)
		tell(timer, now);
	CHECK_INT(last, ==, 3);
}

TEST(a_periodic_callable_is_destroyed_after_its_last_run)
{
	counts of;
	hwt::timer timer = virtual_timer();
	hwt::timeout out;

	CHECK(timer.schedule_every(1ms, 0ms, counted(of), out) == std::errc::invalid_argument);
	CHECK(timer.schedule_every(
		  1ms, 0ms, [] {}, out) == std::errc::invalid_argument);
	CHECK_INT(of.alive, ==, 0);
	CHECK(!timer.schedule_every(1ms, 10ms, counted(of), out));
	tell(timer, 1ms);
	tell(timer, 11ms);
	tell(timer, 36ms);
	CHECK_INT(of.runs, ==, 3);
	CHECK_INT(of.alive, ==, 1);
	CHECK(!out.cancel());
	tell(timer, 60ms);
	CHECK_INT(of.runs, ==, 3);
	CHECK_INT(of.alive, ==, 0);
}

TEST(a_callable_that_is_null_is_refused)
{
	hwt::timer timer = virtual_timer();
	void (*none)() = nullptr;

	CHECK(timer.schedule(1ms, none) == std::errc::invalid_argument);
	CHECK(timer.schedule(1ms, std::function<void()>()) == std::errc::invalid_argument);
	CHECK_INT(timer.pending(), ==, 0);
}

TEST(a_timeout_ends_with_its_object_unless_it_is_left)
{
	hwt::timer timer = virtual_timer();
	int runs = 0;
	auto task = [&runs] { runs++; };

	{
		hwt::timeout waits, cancels(hwt::ending::cancel), leaves(hwt::ending::leave), told, let_go;

		CHECK(!timer.schedule(1ms, task, waits));
		CHECK(!timer.schedule(1ms, task, cancels));
		CHECK(!timer.schedule(1ms, task, leaves));
		CHECK(!timer.schedule(1ms, task, told));
		told.end_by(hwt::ending::leave);
		CHECK(!timer.schedule(1ms, task, let_go));
		CHECK(let_go.let_go().state() == HWT_PENDING);
		CHECK(!let_go);
		CHECK_INT(timer.pending(), ==, 5);
	}
	CHECK_INT(timer.pending(), ==, 3);
	tell(timer, 1ms);
	CHECK_INT(runs, ==, 3);
}

TEST(a_timeout_moves_and_ends_what_it_moves_over)
{
	hwt::timer timer = virtual_timer();
	int runs = 0;
	auto task = [&runs] { runs++; };
	hwt::timeout a, b;

	CHECK(!timer.schedule(1ms, task, a));
	CHECK(!timer.schedule(1ms, task, b));
	hwt::handle first = a, second = b;
	a = std::move(b);
	CHECK(first.state() == HWT_CANCELLED && second.state() == HWT_PENDING && a == second && !b);
	hwt::timeout c(std::move(a));
	CHECK(second.state() == HWT_PENDING && c == second && !a);
	c.reset();
	CHECK(second.state() == HWT_CANCELLED && !c);
	tell(timer, 1ms);
	CHECK_INT(runs, ==, 0);
}

TEST(scheduling_into_a_timeout_ends_what_it_had)
{
	hwt::timer timer = virtual_timer();
	hwt::timeout out;
	int first = 0, second = 0;

	CHECK(!timer.schedule(
	    1ms, [&first] { first++; }, out));
	CHECK(!timer.schedule(
	    2ms, [&second] { second++; }, out));
	CHECK_INT(timer.pending(), ==, 1);
	tell(timer, 5ms);
	CHECK_INT(first, ==, 0);
	CHECK_INT(second, ==, 1);
}

TEST(a_callable_may_schedule_into_its_own_timeout)
{
	struct chain {
		hwt::timer timer = virtual_timer();
		hwt::timeout next;
		int runs = 0;

		void run()
		{
			if (++runs < 3)
				CHECK(!timer.schedule(
				    1ms, [this] { run(); }, next));
		}
	} chain;

	chain.run();
	for (std::chrono::milliseconds now = 1ms; now < 10ms; now += 1ms)
		tell(chain.timer, now);
	CHECK_INT(chain.runs, ==, 3);
}

/* The callable ends its own timeout before schedule has returned: on_earlier lets the time pass in another thread. */
struct session {
	hwt::timeout limit{ hwt::ending::cancel };
};

class scheduled_late
{
      public:
	hwt::timer timer{ hwt::settings().virtual_clock().tick(1ms).on_earlier(*this) };

	scheduled_late()
	{
		tell(timer, 0ms);
	}

	void operator()()
	{
		if (std::exchange(advance, false))
			std::thread([this] { tell(timer, 5ms); }).join();
	}

	bool advance = false;
};

TEST(schedule_ends_what_there_was_as_it_was_told_before_the_callable_ran)
{
	scheduled_late late;
	alignas(session) unsigned char room[sizeof(session)];
	session *place = new (room) session;

	CHECK(!late.timer.schedule(
	    1h, [] {}, place->limit));
	hwt::handle before = place->limit;
	tell(late.timer, 0ms); /* from now on an earlier timeout calls on_earlier */
	late.advance = true;
	CHECK(!late.timer.schedule(
	    1ms,
	    [place] { /* another timeout comes into its place */
		      place->~session();
		      (new (place) session)->limit.end_by(hwt::ending::leave);
	    },
	    place->limit));
	CHECK(!late.advance);
	CHECK(before.state() == HWT_CANCELLED);
	std::launder(place)->~session();
}

TEST(the_end_of_a_timeout_waits_for_its_callable)
{
	hwt::timer timer(1ms);
	std::atomic<bool> began{ false }, over{ false };
	hwt::timeout out;

	CHECK(!timer.schedule(
	    0ms,
	    [&] {
		    began = true;
		    std::this_thread::sleep_for(20ms);
		    over = true;
	    },
	    out));
	CHECK(wait_for([&] { return began.load(); }));
	out.reset();
	CHECK(over);
}

TEST(the_end_of_a_timeout_that_cancels_does_not_wait)
{
	std::atomic<bool> began{ false }, go_on{ false };
	hwt::timer timer(1ms); /* its destructor waits for the callable, which uses them */
	hwt::timeout out(hwt::ending::cancel);

	CHECK(!timer.schedule(
	    0ms,
	    [&] {
		    began = true;
		    CHECK(wait_for([&] { return go_on.load(); }));
	    },
	    out));
	CHECK(wait_for([&] { return began.load(); }));
	out.reset(); /* a wait for itself would never return */
	go_on = true;
}

TEST(a_periodic_callable_may_end_its_own_timeout)
{
	hwt::timer timer = virtual_timer();
	hwt::timeout out;
	int runs = 0;

	CHECK(!timer.schedule_every(
	    1ms, 1ms,
	    [&] {
		    runs++;
		    out.reset();
	    },
	    out));
	tell(timer, 1ms);
	tell(timer, 5ms);
	CHECK_INT(runs, ==, 1);
}

TEST(durations_are_rounded_up_and_held_within_what_there_is)
{
	using hwt::detail::nanoseconds;
	using tiny = std::chrono::duration<std::int8_t, std::ratio<3600>>;
	using fine = std::chrono::duration<std::int64_t, std::pico>;
	using big = std::chrono::duration<std::uint64_t, std::nano>;

	static_assert(nanoseconds(5s) == INT64_C(5000000000) && nanoseconds(-7us) == -7000);
	static_assert(nanoseconds(std::chrono::hours::max()) == INT64_MAX);
	static_assert(nanoseconds(std::chrono::hours::min()) == INT64_MIN);
	static_assert(nanoseconds(tiny(127)) == INT64_C(127) * 3600 * 1000000000);
	static_assert(nanoseconds(big(UINT64_MAX)) == INT64_MAX);
	CHECK_INT(nanoseconds(fine(1)), ==, 1);
	CHECK_INT(nanoseconds(fine(-1999)), ==, -1);
	CHECK_INT(nanoseconds(std::chrono::duration<double>(0.25)), ==, 250000000);
	CHECK_INT(nanoseconds(std::chrono::duration<double>(1e300)), ==, INT64_MAX);
	CHECK_INT(nanoseconds(std::chrono::duration<double>(-1e300)), ==, INT64_MIN);
	CHECK_INT(nanoseconds(std::chrono::duration<double>(std::nan(""))), ==, INT64_MAX);
}

TEST(times_of_the_steady_clock_are_deadlines)
{
	hwt::timer timer(1ms);
	auto when = std::chrono::steady_clock::now() + 20ms;
	std::atomic<bool> ran{ false };
	hwt::timeout out;

	CHECK(!timer.schedule(
	    when + 1h,
	    [&, when] {
		    CHECK(std::chrono::steady_clock::now() >= when);
		    ran = true;
	    },
	    out));
	CHECK(out.state() == HWT_PENDING);
	CHECK(!out.reschedule(when + 2h));
	CHECK(out.state() == HWT_PENDING);
	CHECK(!out.reschedule(when));
	CHECK(wait_for([&] { return ran.load(); }));
}

TEST(a_constructor_throws_and_nothing_else)
{
	int errors = 0;

	for (const hwt::settings &bad : { hwt::settings().tick(-1ms), hwt::settings().clock(9) }) {
		try {
			hwt::timer timer(bad);
		} catch (const std::system_error &e) {
			errors += e.code() == std::errc::invalid_argument;
		}
	}
	CHECK_INT(errors, ==, 2);

	hwt::timer timer(1ms), other(std::move(timer));
	CHECK(timer.native() == nullptr && other.native() != nullptr);
	CHECK(timer.schedule(1ms, [] {}) == std::errc::invalid_argument);
	CHECK(timer.stop() == std::errc::invalid_argument);
	CHECK(hwt::handle().cancel() == std::errc::no_such_file_or_directory);
	CHECK(!other.start());
	timer = std::move(other);
	CHECK(other.native() == nullptr && !timer.stop());

	const hwt::settings day = hwt::settings().clock(HWT_CLOCK_REALTIME).caller_driven();
	hwt::timer driven(day);
	std::chrono::nanoseconds start = 7ns;
	hwt_config config = hwt::defaults();

	CHECK_INT(hwt_timer_config(driven.native(), &config), ==, 0);
	CHECK(config.clock == HWT_CLOCK_REALTIME && config.flags == HWT_CALLER_DRIVEN);
	CHECK(!driven.start() && !driven.grid(start) && start == 0ns);
}

/* The caller's loop */

TEST(a_loop_is_told_when_to_advance_and_in_parts)
{
	int mine = 0, runs = 0, tellings = 0;
	auto told = [&tellings] { tellings++; };
	hwt::timer timer(
	    hwt::settings().virtual_clock().tick(10ms).max_tasks_per_advance(2).on_earlier(told).user(&mine));
	std::chrono::nanoseconds next = 7ns;

	CHECK(timer.user<int>() == &mine);
	CHECK(timer.grid(next) == std::errc::no_such_file_or_directory && next == 7ns);
	CHECK(!timer.advance(0ns, next));
	CHECK(next == std::chrono::nanoseconds::max());
	CHECK(!timer.grid(next) && next == 0ns);
	for (int i = 0; i < 3; i++)
		CHECK(!timer.schedule(25ms, [&runs] { runs++; }));
	CHECK_INT(tellings, ==, 1);
	CHECK(!timer.next(next) && next == 30ms);
	CHECK(!timer.advance(0ns, next) && next == 30ms);
	CHECK(!timer.next(next) && next == 30ms);
	CHECK_INT(runs, ==, 0);
	CHECK(!timer.advance(30ms, next) && next <= 30ms);
	CHECK_INT(runs, ==, 2);
	CHECK(!timer.advance(30ms, next) && next == std::chrono::nanoseconds::max());
	CHECK_INT(runs, ==, 3);
	CHECK(!timer.stop());
	next = 7ns;
	CHECK(timer.advance(40ms, next) == std::errc::operation_canceled && next == 7ns);
	CHECK(timer.next(next) == std::errc::operation_canceled && next == 7ns);
	CHECK(timer.trim() == std::errc::operation_canceled);
}

TEST(a_handle_says_what_is_left_and_whose_its_timer_is)
{
	int mine = 0;
	hwt::timer timer(hwt::settings().virtual_clock().tick(10ms).user(&mine));
	std::chrono::nanoseconds left = 7ns, next;
	hwt::timeout out, absolute;
	int *seen = nullptr;

	std::size_t bytes = 1;
	CHECK(!timer.trim());
	CHECK(!timer.trim(&bytes));
	CHECK(bytes == 0);
	CHECK(!timer.advance(15ms, next));
	CHECK(out.left(left) == std::errc::no_such_file_or_directory && left == 7ns);
	CHECK(!timer.schedule(
	    1s, [&seen](hwt::handle self) { seen = self.user<int>(); }, out));
	CHECK(!timer.schedule_at(
	    20ms, [] {}, absolute));
	CHECK(!out.left(left) && left == 1s);
	CHECK(!absolute.left(left) && left == 5ms);
	CHECK(out.user<int>() == &mine && hwt::handle().user<int>() == nullptr);
	CHECK(!timer.advance(16ms, next) && next == 20ms);
	CHECK(!out.left(left) && left == 999ms);
	CHECK(!timer.advance(2s, next));
	CHECK(seen == &mine);
	CHECK(out.left(left) == std::errc::no_such_file_or_directory && left == 999ms);
}

TEST(a_walk_shows_what_waits_and_an_exception_comes_through)
{
	hwt::timer timer = virtual_timer();
	std::vector<std::int64_t> seen;
	unsigned count = 0;
	bool thrown = false;

	for (int i = 1; i <= 4; i++)
		CHECK(!timer.schedule(i * 1s, [] {}));
	CHECK(!timer.for_each([&](const hwt_pending &pending) { seen.push_back(pending.deadline_ns); }));
	std::sort(seen.begin(), seen.end());
	CHECK(seen == std::vector<std::int64_t>({ HWT_S(1), HWT_S(2), HWT_S(3), HWT_S(4) }));
	CHECK(!timer.for_each([&](const hwt_pending &) { return ++count < 3; }));
	CHECK_INT(count, ==, 3);
	try {
		(void)timer.for_each([&](const hwt_pending &) { throw count; });
	} catch (unsigned it) {
		thrown = it == 3;
	}
	CHECK(thrown);
	hwt::timer moved = std::move(timer);
	CHECK(timer.for_each([](const hwt_pending &) {}).value() == EINVAL);
}

/* Several threads cancel timeouts, let them run or leave them: as many callables are destroyed as were made. */
TEST(callables_of_many_threads_are_each_destroyed_once)
{
	constexpr int threads = 4, each = 2000;
	counts of;
	{
		hwt::timer timer(1ms);
		std::vector<std::thread> crew;

		for (int t = 0; t < threads; t++)
			crew.emplace_back([&, t] {
				for (int i = 0; i < each; i++) {
					hwt::timeout out(hwt::ending(i % 3));

					CHECK(!timer.schedule(std::chrono::microseconds((i * 7 + t) % 3000),
							      counted(of), out));
					if (i % 5 == 0)
						out.cancel();
				}
			});
		for (std::thread &thread : crew)
			thread.join();
	}
	CHECK_INT(of.alive, ==, 0);
	CHECK_INT(of.runs, <=, threads * each);
}

#ifdef HWT_COROUTINES

/* A coroutine that starts at once and goes on by itself. */
struct detached {
	struct promise_type {
		detached get_return_object()
		{
			return {};
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
		}
		void unhandled_exception()
		{
			std::terminate();
		}
	};
};

struct nap {
	std::atomic<int> over{ 0 }, error{ -1 };
	std::thread::id thread;
};

static detached sleep_a_while(hwt::timer &timer, nap &nap, std::chrono::nanoseconds delay, std::stop_token token = {})
{
	std::error_code error = co_await timer.sleep_for(delay, token);

	nap.thread = std::this_thread::get_id();
	nap.error = error.value();
	nap.over++;
}

/* An executor with a thread for each job. */
struct pool {
	std::vector<std::thread> threads;
	std::vector<std::thread::id> ids;
	std::mutex mutex;

	static int execute(void *ctx, void (*run)(void *), void *job)
	{
		pool *self = static_cast<pool *>(ctx);
		std::lock_guard<std::mutex> lock(self->mutex);

		self->threads.emplace_back(run, job);
		self->ids.push_back(self->threads.back().get_id());
		return 0;
	}
};

TEST(a_coroutine_goes_on_on_the_executor_also_when_it_is_stopped)
{
	pool pool;
	hwt_executor executor = { pool::execute, &pool };
	hwt_config config = hwt::defaults();
	std::stop_source source;
	nap slept, stopped;

	config.tick_duration_ns = HWT_MS(1);
	config.executor = &executor;
	{
		hwt::timer timer(config);

		sleep_a_while(timer, slept, 1ms);
		sleep_a_while(timer, stopped, 1h, source.get_token());
		CHECK(wait_for([&] { return slept.over == 1; }));
		source.request_stop();
		CHECK(wait_for([&] { return stopped.over == 1; }));
		CHECK_INT(slept.error, ==, 0);
		CHECK_INT(stopped.error, ==, ECANCELED);
	}
	for (std::thread &thread : pool.threads)
		thread.join();
	REQUIRE(pool.ids.size() == 2);
	CHECK(slept.thread == pool.ids[0] && stopped.thread == pool.ids[1]);
}

TEST(a_request_to_stop_ends_a_sleep_soon)
{
	hwt::timer timer(1ms);
	std::stop_source source;
	nap nap;

	sleep_a_while(timer, nap, 1h, source.get_token());
	CHECK_INT(nap.over, ==, 0);
	source.request_stop();
	CHECK(wait_for([&] { return nap.over == 1; }));
	CHECK_INT(nap.error, ==, ECANCELED);
	CHECK(nap.thread != std::this_thread::get_id());
}

TEST(a_sleep_that_is_refused_or_comes_after_the_request_to_stop_does_not_suspend)
{
	hwt_config config = hwt::defaults();
	nap first, second, third, fourth;
	std::stop_source source;

	config.max_pending_timeouts = 1;
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	hwt::timer timer(config);
	sleep_a_while(timer, first, 1h);
	sleep_a_while(timer, second, 1h);
	CHECK_INT(second.over, ==, 1);
	CHECK_INT(second.error, ==, ENOBUFS);
	sleep_a_while(timer, third, 1h, source.get_token());
	CHECK_INT(third.error, ==, ENOBUFS);
	source.request_stop();
	sleep_a_while(timer, fourth, 1h, source.get_token());
	CHECK_INT(fourth.over, ==, 1);
	CHECK_INT(fourth.error, ==, ECANCELED);
	CHECK_INT(timer.pending(), ==, 1);
	tell(timer, 2h);
	CHECK_INT(first.error, ==, 0);
}

static detached sleep_twice(hwt::timer &timer, int &first, int &second)
{
	first = (co_await timer.sleep_for(1h)).value();
	second = (co_await timer.sleep_for(1h)).value();
}

TEST(coroutines_that_sleep_end_with_their_timer)
{
	std::stop_source source;
	nap plain, stoppable;
	int first = -1, second = -1;
	{
		hwt::timer timer(1ms);

		sleep_a_while(timer, plain, 1h);
		sleep_a_while(timer, stoppable, 1h, source.get_token());
		sleep_twice(timer, first, second);
		CHECK(!timer.stop());
		CHECK_INT(plain.over, ==, 0);
	}
	CHECK_INT(plain.over, ==, 1);
	CHECK_INT(plain.error, ==, ECANCELED);
	CHECK_INT(stoppable.error, ==, ECANCELED);
	CHECK_INT(first, ==, ECANCELED);
	CHECK_INT(second, ==, ECANCELED);
	source.request_stop(); /* no sleep hears it */
}

static detached sleep_again(hwt::sleep &sleep, nap &nap, int times)
{
	for (int i = 0; i < times; i++) {
		nap.error = (co_await sleep).value();
		nap.over++;
	}
}

TEST(a_sleep_is_awaited_again_and_says_what_became_of_this_one)
{
	std::stop_source source;
	nap stopped, ended;
	{
		hwt::timer timer = virtual_timer();
		hwt::sleep stoppable = timer.sleep_for(1ms, source.get_token()), plain = timer.sleep_for(1ms);

		sleep_again(stoppable, stopped, 3);
		sleep_again(plain, ended, 2);
		CHECK_INT(stopped.over, ==, 0);
		tell(timer, 1ms);
		CHECK_INT(stopped.over, ==, 1);
		CHECK_INT(stopped.error, ==, 0);
		CHECK_INT(ended.over, ==, 1);
		CHECK_INT(ended.error, ==, 0);
		source.request_stop();
		tell(timer, 2ms);
		/* The second is stopped in its sleep; the third does not begin. */
		CHECK_INT(stopped.over, ==, 3);
		CHECK_INT(stopped.error, ==, ECANCELED);
		CHECK_INT(ended.over, ==, 2);
		CHECK_INT(ended.error, ==, 0);
		sleep_again(plain, ended, 1);
		CHECK(!timer.stop());
		hwt::timer(std::move(timer)); /* destroyed while both sleeps exist */
		CHECK_INT(ended.over, ==, 3);
		CHECK_INT(ended.error, ==, ECANCELED);
	}
}

static detached sleep_until_then(hwt::timer &timer, nap &nap, std::chrono::steady_clock::time_point when)
{
	nap.error = (co_await timer.sleep_until(when)).value();
	CHECK(std::chrono::steady_clock::now() >= when);
	nap.over++;
}

TEST(a_coroutine_sleeps_until_a_time)
{
	hwt::timer timer(1ms);
	nap nap;

	sleep_until_then(timer, nap, std::chrono::steady_clock::now() + 10ms);
	CHECK(wait_for([&] { return nap.over == 1; }));
	CHECK_INT(nap.error, ==, 0);
}

static detached sleep_again_and_again(hwt::timer &timer, counts &of, int turns, unsigned salt, std::stop_token token)
{
	counted owned(of);

	for (int i = 0; i < turns; i++) {
		auto began = std::chrono::steady_clock::now();
		auto delay = std::chrono::microseconds((salt * 131 + static_cast<unsigned>(i) * 37) % 2000);

		if (auto error = co_await timer.sleep_for(delay, token)) {
			CHECK(token.stop_requested());
			break;
		}
		CHECK(std::chrono::steady_clock::now() - began >= delay);
	}
	owned();
}

/* Stops race with the beginnings and ends of sleeps: each coroutine goes on exactly once after each sleep. */
TEST(stops_race_with_the_ends_of_sleeps)
{
	constexpr unsigned rounds = 20, each = 50;
	counts of;
	{
		hwt::timer timer(1ms);

		for (unsigned round = 0; round < rounds; round++) {
			std::stop_source source;
			std::thread stopper([&] {
				std::this_thread::sleep_for(std::chrono::microseconds(100 + round * 97 % 3000));
				source.request_stop();
			});

			for (unsigned i = 0; i < each; i++)
				sleep_again_and_again(timer, of, 1000, i, source.get_token());
			stopper.join();
		}
		CHECK(wait_for([&] { return of.alive == 0; }));
	}
	CHECK_INT(of.runs, ==, rounds * each);
	CHECK_INT(of.alive, ==, 0);
}

#endif

TEST_MAIN()
