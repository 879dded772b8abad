/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_HPP
#define HWT_HPP

/*
 * libhwt for C++17, and with coroutines for C++20.  A header alone, over hwt.h: link the same library.
 *
 *     hwt::timer timer(10ms);                                  // the tick; a full hwt_config is possible
 *     hwt::timeout limit;
 *
 *     if (auto error = timer.schedule(5s, [this] { give_up(); }, limit))
 *             return error;                                    // nothing was scheduled
 *     ...
 *     limit.cancel();                                          // or let the destructor do it
 *
 *     if (auto error = co_await timer.sleep_for(1s, token))    // C++20; an error: the stop was requested
 *             co_return;
 *
 * Lifetimes
 *
 *   A callable is moved into the timer, and destroyed exactly once: by the thread that calls schedule if that fails,
 *   otherwise by the library's finaliser, on the worker (or the executor's thread) after its last run or soon after the
 *   cancel, and in ~timer if it was pending until the end.  A small one takes no memory of its own: it may have the
 *   size of a pointer, has to be trivially copyable, and must not change itself.  `[this]`, a reference and a function
 *   pointer are such.  Each other one takes one allocation.
 *
 *   ~timeout ends the timeout as the constructor was told (hwt::ending).  By default it cancels, and waits for a
 *   callable that is running: objects that the callable refers to may be destroyed next.  Hold no lock then that the
 *   callable takes.  ~timeout does not wait for two things:
 *
 *     The callable's destructor may run later, in the finaliser.  It must not use an object that ends before the timer.
 *     If a callable schedules into its own timeout while another thread ends that timeout, nothing ends the new one.
 *     Use handle::reschedule instead, which a cancel prevents.
 *
 *   ~timer stops and destroys.  All timeouts have to end before: declare the timer first.  Like the C call, it must not
 *   happen in a task of that timer; there it calls std::terminate.
 *
 * Errors
 *
 *   Only constructors of timer throw, std::system_error.  All else returns std::error_code, with the errno values that
 *   hwt.h names: compare with std::errc.  What a callable's own copy or move throws passes through, and nothing was
 *   scheduled.  An exception must not leave a callable: std::terminate.  Nor must its thread end there (pthread_exit).
 *   With -fno-exceptions this header does not compile.
 *
 * Threads, order and cost are those of the C calls, which each comment names.
 */

#include <hwt.h>

#if __cplusplus < 201703L
#error "hwt.hpp needs C++17"
#endif

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <ratio>
#include <system_error>
#include <type_traits>
#include <utility>

#if defined(__cpp_impl_coroutine) && defined(__has_include)
#if __has_include(<coroutine>) && __has_include(<stop_token>)
#include <coroutine>
#include <stop_token>
#if defined(__cpp_lib_coroutine) && defined(__cpp_lib_jthread)
#define HWT_COROUTINES 1
#include <atomic>
#include <optional>
#include <thread>
#endif
#endif
#endif

namespace hwt
{

class handle;

/* HWT_CONFIG_INIT, to be changed and given to a timer. */
inline hwt_config defaults() noexcept
{
	return HWT_CONFIG_INIT;
}

namespace detail
{

inline std::error_code error(int rc) noexcept
{
	return rc == 0 ? std::error_code() : std::error_code(rc, std::generic_category());
}

/*
 * Converts to nanoseconds, rounded up so that no timeout is early.  A value that an int64_t does not hold becomes its
 * limit, a NaN "never".
 */
template <class Rep, class Period>
constexpr std::int64_t nanoseconds(std::chrono::duration<Rep, Period> duration) noexcept
{
	using unit = std::ratio_divide<Period, std::nano>;

	if constexpr (std::is_integral_v<Rep> && sizeof(Rep) <= sizeof(std::int64_t) && unit::den == 1) {
		constexpr std::int64_t limit = INT64_MAX / unit::num;

		if constexpr (std::is_unsigned_v<Rep>) {
			if (std::uint64_t{ duration.count() } > std::uint64_t{ limit })
				return INT64_MAX;
		} else {
			if (std::int64_t{ duration.count() } > limit)
				return INT64_MAX;
			if (std::int64_t{ duration.count() } < -limit)
				return INT64_MIN;
		}
		return static_cast<std::int64_t>(duration.count()) * unit::num;
	} else {
		long double ns = std::ceil(std::chrono::duration<long double, std::nano>(duration).count());

		if (!(ns < static_cast<long double>(INT64_MAX)))
			return INT64_MAX;
		return ns > static_cast<long double>(INT64_MIN) ? static_cast<std::int64_t>(ns) : INT64_MIN;
	}
}

/* Converts to a time of hwt_now()'s clock: on Linux that is steady_clock, elsewhere the distance from now is kept. */
template <class Duration>
std::int64_t deadline(std::chrono::time_point<std::chrono::steady_clock, Duration> when) noexcept
{
#ifdef __linux__
	return nanoseconds(when.time_since_epoch());
#else
	const std::int64_t when_ns = nanoseconds(when.time_since_epoch());
	const std::int64_t ahead_ns = hwt_now() - nanoseconds(std::chrono::steady_clock::now().time_since_epoch());

	if (ahead_ns > 0)
		return when_ns > INT64_MAX - ahead_ns ? INT64_MAX : when_ns + ahead_ns;
	return when_ns < INT64_MIN - ahead_ns ? INT64_MIN : when_ns + ahead_ns;
#endif
}

template <class F, class = void> struct may_be_null : std::false_type {
};
/* A lambda without captures converts to a function pointer, which is never null. */
template <class F>
struct may_be_null<F, std::void_t<decltype(std::declval<const F &>() == nullptr)>>
    : std::bool_constant<!std::is_empty_v<F>> {
};

/* A callable in arg: in the bytes of arg itself, or in a block to which arg points. */
template <class F> struct task {
	static_assert(std::is_invocable_v<F &> || std::is_invocable_v<F &, handle>,
		      "a task takes nothing, or a hwt::handle");

	static constexpr bool inside = sizeof(F) <= sizeof(void *) && alignof(F) <= alignof(void *) &&
				       std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F> &&
				       (std::is_invocable_v<const F &> || std::is_invocable_v<const F &, handle>);

	static void call(F &f, hwt_timeout timeout);

	static void run(hwt_timeout timeout, void *arg) noexcept
	{
		if constexpr (inside) {
			alignas(F) unsigned char room[sizeof(F)];

			std::memcpy(room, &arg, sizeof(F));
			call(*std::launder(reinterpret_cast<F *>(room)), timeout);
		} else {
			call(*static_cast<F *>(arg), timeout);
		}
	}

	static void release(void *arg) noexcept
	{
		delete static_cast<F *>(arg);
	}

	template <class G> static int schedule(hwt_timer *timer, hwt_spec &spec, G &&callable, hwt_timeout *out)
	{
		spec.size = sizeof(spec);
		spec.task = run;
		if constexpr (may_be_null<F>::value && !std::is_function_v<std::remove_reference_t<G>>) {
			if (callable == nullptr)
				return EINVAL;
		}
		if constexpr (inside) {
			if constexpr (!std::is_empty_v<F>) {
				const F f(std::forward<G>(callable));

				std::memcpy(&spec.arg, &f, sizeof(F));
			}
			if (spec.period_ns != 0)
				return hwt_new_timeout_ex(timer, &spec, out);
			if (spec.flags != 0)
				return hwt_new_timeout_at(timer, run, spec.arg, spec.when_ns, out);
			return hwt_new_timeout(timer, run, spec.arg, spec.when_ns, out);
		} else {
			std::unique_ptr<F> f(new (std::nothrow) F(std::forward<G>(callable)));
			int rc;

			if (!f)
				return ENOMEM;
			spec.arg = f.get();
			spec.release = release;
			rc = hwt_new_timeout_ex(timer, &spec, out);
			if (rc == 0)
				(void)f.release(); /* the finaliser destroys the callable, or has done so */
			return rc;
		}
	}
};

} // namespace detail

/*
 * Names a timeout and owns nothing: a value, to be copied and kept.  Until the timer is destroyed it is harmless, also
 * after the timeout has ended.
 */
class handle
{
      public:
	constexpr handle() noexcept = default;
	constexpr explicit handle(hwt_timeout timeout) noexcept : timeout_(timeout)
	{
	}

	/* hwt_cancel: without an error this call has prevented the run. */
	std::error_code cancel() const noexcept
	{
		return detail::error(hwt_cancel(timeout_));
	}

	/* hwt_cancel_sync: afterwards the callable does not run, unless the error is resource_deadlock_would_occur. */
	std::error_code cancel_sync() const noexcept
	{
		return detail::error(hwt_cancel_sync(timeout_));
	}

	/* hwt_reschedule; called in the timeout's own callable it re-arms. */
	template <class Rep, class Period>
	[[nodiscard]] std::error_code reschedule(std::chrono::duration<Rep, Period> delay) const noexcept
	{
		return detail::error(hwt_reschedule(timeout_, detail::nanoseconds(delay)));
	}

	/* hwt_reschedule_at, for a timer on HWT_CLOCK_MONOTONIC: see timer::schedule. */
	template <class Duration>
	[[nodiscard]] std::error_code
	reschedule(std::chrono::time_point<std::chrono::steady_clock, Duration> when) const noexcept
	{
		return detail::error(hwt_reschedule_at(timeout_, detail::deadline(when)));
	}

	/* hwt_timeout_state. */
	hwt_state state() const noexcept
	{
		return hwt_timeout_state(timeout_);
	}

	/* hwt_timeout_left: the time to the deadline, on the timer's clock.  After an error `left` is unchanged. */
	[[nodiscard]] std::error_code left(std::chrono::nanoseconds &left) const noexcept
	{
		std::int64_t left_ns = 0;
		int rc = hwt_timeout_left(timeout_, &left_ns);

		if (rc == 0)
			left = std::chrono::nanoseconds(left_ns);
		return detail::error(rc);
	}

	/*
	 * hwt_timer_user of the handle's timer: the pointer given to settings::user.  Null for a handle that names
	 * nothing.
	 */
	template <class T> T *user() const noexcept
	{
		return static_cast<T *>(hwt_timer_user(hwt_timeout_timer(timeout_)));
	}

	/* hwt_timeout_missed: in the callable of a periodic timeout. */
	std::uint64_t missed() const noexcept
	{
		return hwt_timeout_missed(timeout_);
	}

	/* True if the handle names a timeout, which may have ended. */
	explicit operator bool() const noexcept
	{
		return timeout_.entry != nullptr;
	}

	/* For the C calls. */
	hwt_timeout native() const noexcept
	{
		return timeout_;
	}

	friend bool operator==(const handle &a, const handle &b) noexcept
	{
		return a.timeout_.entry == b.timeout_.entry && a.timeout_.generation == b.timeout_.generation;
	}

	friend bool operator!=(const handle &a, const handle &b) noexcept
	{
		return !(a == b);
	}

      protected:
	hwt_timeout timeout_ = HWT_TIMEOUT_NONE;
};

template <class F> void detail::task<F>::call(F &f, hwt_timeout timeout)
{
	if constexpr (std::is_invocable_v<F &, handle>) {
		(void)f(handle(timeout));
	} else {
		(void)timeout;
		(void)f();
	}
}

/* Says what ~timeout does. */
enum class ending {
	wait,   /* hwt_cancel_sync; in the timeout's own callable, which cannot wait for itself, hwt_cancel */
	cancel, /* hwt_cancel: a running callable goes on */
	leave   /* nothing: the timeout outlives the object */
};

/* Owns a timeout: ends it in its destructor, when another timeout is moved or scheduled into it, and in reset(). */
class timeout : public handle
{
      public:
	timeout() noexcept = default;
	explicit timeout(ending how) noexcept : ending_(how)
	{
	}

	timeout(timeout &&other) noexcept : handle(other.let_go()), ending_(other.ending_)
	{
	}

	timeout &operator=(timeout &&other) noexcept
	{
		if (this != &other) {
			reset();
			timeout_ = other.let_go().native();
			ending_ = other.ending_;
		}
		return *this;
	}

	~timeout()
	{
		end(timeout_, ending_);
	}

	/* Ends the timeout now, as the destructor would. */
	void reset() noexcept
	{
		end(let_go().native(), ending_);
	}

	/* Gives up the ownership and leaves the timeout as it is. */
	handle let_go() noexcept
	{
		handle left = *this;

		timeout_ = HWT_TIMEOUT_NONE;
		return left;
	}

	void end_by(ending how) noexcept
	{
		ending_ = how;
	}

      private:
	friend class timer;

	static void end(hwt_timeout timeout, ending how) noexcept
	{
		if (timeout.entry == nullptr || how == ending::leave)
			return;
		if (how == ending::cancel || hwt_cancel_sync(timeout) == EDEADLK)
			hwt_cancel(timeout);
	}

	ending ending_ = ending::wait;
};

#ifdef HWT_COROUTINES

/*
 * What timer.sleep_for and sleep_until return, for co_await.  The coroutine goes on where a task would run: on the
 * executor, or on the worker.  After a request to stop that is soon, at the next tick; when the timer is destroyed, in
 * ~timer.  co_await returns no error, operation_canceled when the sleep ended for one of these reasons, or why it could
 * not begin; then the coroutine has not been suspended.  It may be awaited again after that, and sleeps again, for the
 * whole delay or until the same time.  A coroutine that sleeps must not be destroyed.
 *
 * Name the result, also in a condition: g++ 12 leaves the sleep of `if (co_await timer.sleep_for(1s))` on the stack of
 * a coroutine that has no variables, and the program crashes.
 *
 * In a loop of one's own: a sleep with a token that ends in timer.advance waits for the thread that begins it, and for
 * the one that requests its stop.  Either may be in on_earlier.  If that takes a lock, do not hold the lock across
 * timer.advance: each would wait for the other.
 */
class [[nodiscard]] sleep
{
      public:
	sleep(hwt_timer *timer, std::int64_t when_ns, std::uint32_t flags, std::stop_token token) noexcept
	    : timer_(timer), when_ns_(when_ns), flags_(flags), token_(std::move(token))
	{
	}
	sleep(const sleep &) = delete;
	sleep &operator=(const sleep &) = delete;

	bool await_ready() noexcept
	{
		rc_ = ECANCELED; /* the error if there is nothing to wait for */
		ran_ = false;
		return token_.stop_requested();
	}

	bool await_suspend(std::coroutine_handle<> waiter) noexcept
	{
		const bool stoppable = token_.stop_possible();
		hwt_timeout timeout = HWT_TIMEOUT_NONE;
		hwt_spec spec = {};
		int rc;

		waiter_ = waiter;
		armed_.store(!stoppable, std::memory_order_relaxed); /* the call below publishes the store */
		spec.size = sizeof(spec);
		spec.task = run;
		spec.release = finish;
		spec.arg = this;
		spec.when_ns = when_ns_;
		spec.flags = flags_;
		rc = hwt_new_timeout_ex(timer_, &spec, &timeout);
		if (rc != 0) {
			rc_ = rc;
			return false;
		}
		if (!stoppable)
			return true; /* the coroutine may have gone on and destroyed *this */
		hurry_.emplace(token_, hurry{ timeout });
		armed_.store(true, std::memory_order_release); /* from here on, too: see finish */
		return true;
	}

	[[nodiscard]] std::error_code await_resume() const noexcept
	{
		return detail::error(rc_);
	}

      private:
	/*
	 * Called when a stop is requested: makes the task run at the next tick, or cancels it if there is no memory for
	 * that.
	 */
	struct hurry {
		hwt_timeout timeout;

		void operator()() const noexcept
		{
			if (hwt_reschedule(timeout, 0) == ENOMEM)
				hwt_cancel(timeout);
		}
	};

	static void run(hwt_timeout, void *arg) noexcept
	{
		static_cast<sleep *>(arg)->ran_ = true;
	}

	/* Resumes the coroutine.  A finaliser, as a finaliser is called exactly once, however the timeout ends. */
	static void finish(void *arg) noexcept
	{
		sleep *self = static_cast<sleep *>(arg);

		/* Waits for some instructions: the thread that sleeps is inside of await_suspend. */
		for (unsigned turns = 0; !self->armed_.load(std::memory_order_acquire); turns++) {
			if (turns < 16)
				std::this_thread::yield();
			else
				std::this_thread::sleep_for(std::chrono::microseconds(50));
		}
		self->hurry_.reset(); /* waits until the callback does not run */
		self->rc_ = self->ran_ && !self->token_.stop_requested() ? 0 : ECANCELED;
		self->waiter_.resume();
	}

	hwt_timer *timer_;
	std::int64_t when_ns_;
	std::uint32_t flags_;
	int rc_ = ECANCELED;
	bool ran_ = false;
	std::atomic<bool> armed_{ false };
	std::stop_token token_;
	std::optional<std::stop_callback<hurry>> hurry_;
	std::coroutine_handle<> waiter_;
};

#endif

/* A hwt_config whose fields are set by chained calls.  Give it to a timer. */
class settings
{
      public:
	template <class Rep, class Period> settings &tick(std::chrono::duration<Rep, Period> tick) noexcept
	{
		config_.tick_duration_ns = detail::nanoseconds(tick);
		return *this;
	}

	/* HWT_CLOCK_*. */
	settings &clock(std::uint32_t clock) noexcept
	{
		config_.clock = clock;
		return *this;
	}

	/* HWT_CALLER_DRIVEN: no worker, callables run in timer.advance. */
	settings &caller_driven() noexcept
	{
		config_.flags |= HWT_CALLER_DRIVEN;
		return *this;
	}

	/* As caller_driven; the times told to timer.advance are the clock, from 0 on: HWT_VIRTUAL_CLOCK. */
	settings &virtual_clock() noexcept
	{
		config_.flags |= HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
		return *this;
	}

	settings &max_tasks_per_advance(std::uint32_t count) noexcept
	{
		config_.max_tasks_per_advance = count;
		return *this;
	}

	/* Makes on_earlier call callable().  It is not copied: it has to outlive the timer. */
	template <class F> settings &on_earlier(F &callable) noexcept
	{
		static_assert(std::is_invocable_v<F &>, "on_earlier takes nothing");
		config_.on_earlier = [](void *ctx) noexcept { (*static_cast<F *>(ctx))(); };
		config_.on_earlier_ctx = const_cast<std::remove_const_t<F> *>(std::addressof(callable));
		return *this;
	}

	/* For handle::user and timer::user. */
	settings &user(void *user) noexcept
	{
		config_.user = user;
		return *this;
	}

	/* For all other fields of hwt_config. */
	hwt_config &native() noexcept
	{
		return config_;
	}
	const hwt_config &native() const noexcept
	{
		return config_;
	}

      private:
	hwt_config config_ = defaults();
};

/* A timer: a worker thread, a wheel and its timeouts.  One in a process is usual. */
class timer
{
      public:
	/* hwt_timer_create; throws std::system_error. */
	explicit timer(const hwt_config &config)
	{
		int rc = hwt_timer_create(&timer_, &config);

		if (rc != 0)
			throw std::system_error(rc, std::generic_category(), "hwt_timer_create");
	}

	explicit timer(const settings &chosen) : timer(chosen.native())
	{
	}

	timer() : timer(defaults())
	{
	}

	/* A timer with this tick, and defaults. */
	template <class Rep, class Period>
	explicit timer(std::chrono::duration<Rep, Period> tick) : timer(with_tick(detail::nanoseconds(tick)))
	{
	}

	timer(timer &&other) noexcept : timer_(std::exchange(other.timer_, nullptr))
	{
	}

	timer &operator=(timer &&other) noexcept
	{
		if (this != &other) {
			destroy();
			timer_ = std::exchange(other.timer_, nullptr);
		}
		return *this;
	}

	~timer()
	{
		destroy();
	}

	/*
	 * Schedules callable() or callable(hwt::handle) to run once, at the first tick at or after the delay.
	 * hwt_new_timeout, or with a finaliser hwt_new_timeout_ex; ENOMEM also if there is no memory for the callable.
	 * After an error out is unchanged, and the callable has been destroyed if it was moved.  Without an error, out
	 * first ends the timeout that it owned.
	 */
	template <class Rep, class Period, class F>
	[[nodiscard]] std::error_code schedule(std::chrono::duration<Rep, Period> delay, F &&callable, timeout &out)
	{
		return submit(detail::nanoseconds(delay), 0, 0, std::forward<F>(callable), out);
	}

	/*
	 * Schedules for a time; hwt_new_timeout_at.  Only for a timer on HWT_CLOCK_MONOTONIC: on HWT_CLOCK_REALTIME a
	 * time of steady_clock lies in 1970, and the callable runs at once.  For other clocks there is schedule_at.
	 */
	template <class Duration, class F>
	[[nodiscard]] std::error_code schedule(std::chrono::time_point<std::chrono::steady_clock, Duration> when,
					       F &&callable, timeout &out)
	{
		return submit(detail::deadline(when), 0, HWT_ABSOLUTE, std::forward<F>(callable), out);
	}

	/* Schedules for a time since the beginning of the timer's clock, whichever clock it is: HWT_ABSOLUTE. */
	template <class Rep, class Period, class F>
	[[nodiscard]] std::error_code schedule_at(std::chrono::duration<Rep, Period> when, F &&callable, timeout &out)
	{
		return submit(detail::nanoseconds(when), 0, HWT_ABSOLUTE, std::forward<F>(callable), out);
	}

	/* Schedules without a handle: only its run or the end of the timer ends the timeout. */
	template <class When, class F> [[nodiscard]] std::error_code schedule(When when, F &&callable)
	{
		timeout out(ending::leave);

		return schedule(when, std::forward<F>(callable), out);
	}

	/* Schedules again and again: hwt_new_periodic.  A callable that takes a hwt::handle can cancel the timeout. */
	template <class Rep, class Period, class Rep2, class Period2, class F>
	[[nodiscard]] std::error_code schedule_every(std::chrono::duration<Rep, Period> first,
						     std::chrono::duration<Rep2, Period2> period, F &&callable,
						     timeout &out)
	{
		std::int64_t period_ns = detail::nanoseconds(period);

		/* a period of 0 would mean once. */
		return submit(detail::nanoseconds(first), period_ns > 0 ? period_ns : -1, 0, std::forward<F>(callable),
			      out);
	}

	template <class First, class Period, class F>
	[[nodiscard]] std::error_code schedule_every(First first, Period period, F &&callable)
	{
		timeout out(ending::leave);

		return schedule_every(first, period, std::forward<F>(callable), out);
	}

#ifdef HWT_COROUTINES
	/* co_await it; see sleep. */
	template <class Rep, class Period>
	sleep sleep_for(std::chrono::duration<Rep, Period> delay, std::stop_token token = {}) noexcept
	{
		return sleep(timer_, detail::nanoseconds(delay), 0, std::move(token));
	}

	/* Sleeps until a time.  For a timer on HWT_CLOCK_MONOTONIC, as schedule for a time. */
	template <class Duration>
	sleep sleep_until(std::chrono::time_point<std::chrono::steady_clock, Duration> when,
			  std::stop_token token = {}) noexcept
	{
		return sleep(timer_, detail::deadline(when), HWT_ABSOLUTE, std::move(token));
	}
#endif

	/* hwt_timer_start. */
	[[nodiscard]] std::error_code start() noexcept
	{
		return detail::error(hwt_timer_start(timer_));
	}

	/* hwt_timer_stop.  The callables that have not run are destroyed by ~timer. */
	std::error_code stop(std::size_t *unprocessed = nullptr) noexcept
	{
		return detail::error(hwt_timer_stop(timer_, unprocessed));
	}

	/* hwt_timer_trim; after an error *bytes is unchanged. */
	std::error_code trim(std::size_t *bytes = nullptr) noexcept
	{
		return detail::error(hwt_timer_trim(timer_, bytes));
	}

	/*
	 * hwt_timer_advance, hwt_timer_next and hwt_timer_grid: times since the beginning of the timer's clock, which
	 * for HWT_CLOCK_MONOTONIC on Linux is that of steady_clock.  After an error `out` is unchanged.
	 */
	[[nodiscard]] std::error_code advance(std::chrono::nanoseconds now, std::chrono::nanoseconds &next) noexcept
	{
		std::int64_t next_ns = 0;
		int rc = hwt_timer_advance(timer_, now.count(), &next_ns);

		return take(rc, next_ns, next);
	}

	[[nodiscard]] std::error_code next(std::chrono::nanoseconds &next) noexcept
	{
		std::int64_t next_ns = 0;
		int rc = hwt_timer_next(timer_, &next_ns);

		return take(rc, next_ns, next);
	}

	[[nodiscard]] std::error_code grid(std::chrono::nanoseconds &start) const noexcept
	{
		std::int64_t start_ns = 0;
		int rc = hwt_timer_grid(timer_, &start_ns);

		return take(rc, start_ns, start);
	}

	/* hwt_timer_user. */
	template <class T> T *user() const noexcept
	{
		return static_cast<T *>(hwt_timer_user(timer_));
	}

	/* hwt_pending_timeouts. */
	std::uint64_t pending() const noexcept
	{
		return hwt_pending_timeouts(timer_);
	}

	/*
	 * hwt_timer_each: calls callable(const hwt_pending &) for each timeout.  The callable returns nothing, or a
	 * bool: false ends the walk.  An exception ends the walk, too, and reaches the caller.
	 */
	template <class F> std::error_code for_each(F &&callable)
	{
		using result = std::invoke_result_t<F &, const hwt_pending &>;

		static_assert(std::is_void_v<result> || std::is_same_v<result, bool>, "for_each: void or bool");
		each_of<std::remove_reference_t<F>> each{ callable, nullptr };
		int rc = hwt_timer_each(timer_, each.visit, &each);

		if (each.thrown)
			std::rethrow_exception(each.thrown);
		return detail::error(rc);
	}

	/* For the C calls; nullptr after a move. */
	hwt_timer *native() const noexcept
	{
		return timer_;
	}

      private:
	static std::error_code take(int rc, std::int64_t ns, std::chrono::nanoseconds &out) noexcept
	{
		if (rc == 0)
			out = std::chrono::nanoseconds(ns);
		return detail::error(rc);
	}

	static hwt_config with_tick(std::int64_t tick_ns) noexcept
	{
		hwt_config config = defaults();

		config.tick_duration_ns = tick_ns;
		return config;
	}

	template <class F> struct each_of {
		F &callable;
		std::exception_ptr thrown;

		static bool visit(void *ctx, const hwt_pending *pending) noexcept
		{
			each_of *each = static_cast<each_of *>(ctx);

			try {
				if constexpr (std::is_void_v<std::invoke_result_t<F &, const hwt_pending &>>)
					each->callable(*pending);
				else
					return each->callable(*pending);
				return true;
			} catch (...) {
				each->thrown = std::current_exception();
				return false;
			}
		}
	};

	/*
	 * The library writes the handle before the callable can run.  The old timeout of out is ended once the new one
	 * is accepted.  After that out is not touched: the callable may have run, and destroyed it.
	 */
	template <class F>
	std::error_code submit(std::int64_t when_ns, std::int64_t period_ns, std::uint32_t flags, F &&callable,
			       timeout &out)
	{
		const hwt_timeout before = out.timeout_;
		const ending how = out.ending_;
		hwt_spec spec = {};
		int rc;

		spec.when_ns = when_ns;
		spec.period_ns = period_ns;
		spec.flags = flags;
		rc = detail::task<std::decay_t<F>>::schedule(timer_, spec, std::forward<F>(callable), &out.timeout_);
		if (rc == 0)
			timeout::end(before, how);
		return detail::error(rc);
	}

	void destroy() noexcept
	{
		if (hwt_timer_destroy(timer_) != 0)
			std::terminate(); /* in a task of this timer */
	}

	hwt_timer *timer_ = nullptr;
};

} // namespace hwt

#endif /* HWT_HPP */
