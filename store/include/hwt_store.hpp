/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef HWT_STORE_HPP
#define HWT_STORE_HPP

/*
 * libhwt-store for C++17.  A header alone, over hwt_store.h and hwt.hpp: link the same libraries.
 *
 *     hwt::store store("sqlite:/var/lib/app/timeouts.db");           // throws std::system_error, with the text
 *
 *     auto error = store.add(hwt::kind("remind"), [&](const hwt_store_run &run) -> hwt::answer {
 *             if (!online())
 *                     return hwt::again(run, 90s);
 *             return mail(hwt::data(run));                           // an errno value or a std::error_code
 *     });
 *     if (!error)
 *             error = store.start();
 *     if (!error)
 *             error = store.put(hwt::spec("remind").data("alice@example.org").in(24h).key("order 17").replace());
 *     ...
 *     store.cancel({ "remind", "order 17" });
 *
 * Errors
 *
 *   Only the constructor of store throws, std::system_error.  The other functions return std::error_code, with the
 *   errno values that hwt_store.h names: compare with std::errc.  hwt_store_error() has the text.  std::bad_alloc of
 *   the C++ part, and exceptions from copying a callable, pass through, and change nothing.
 *
 *   A std::exception that a task throws fails its run with what() as its error, which config.warn is told, too; any
 *   other exception is ECANCELED.  An exception from the callable of an each ends the list, and passes through.
 *
 * Lifetimes
 *
 *   A task is copied when it is registered, and destroyed by ~store after its last run.  Several threads call it at a
 *   time.  A spec and a which have copies of their texts.  A text with a 0 inside is refused, EINVAL.
 *
 *   ~store stops and closes, and waits for the tasks.  Like the C call, it must not happen in a task: std::terminate.
 *   A pulled run that outlives its store is over: the timeout runs elsewhere, or again.
 *
 * Threads, order and cost are those of the C calls, which each comment names.  native() is for C calls without a
 * counterpart.
 */

#include <hwt.hpp>
#include <hwt_store.h>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hwt
{

/* HWT_STORE_CONFIG_INIT: change it, and pass it to a store. */
inline hwt_store_config store_defaults() noexcept
{
	return HWT_STORE_CONFIG_INIT;
}

/* HWT_STORE_KIND_INIT with this name: change it, and pass it to store.add, which sets the task. */
inline hwt_store_kind kind(const char *name) noexcept
{
	hwt_store_kind of = HWT_STORE_KIND_INIT;

	of.name = name;
	return of;
}

namespace detail
{

using text = std::optional<std::string>;

/* A text with a 0 inside would be cut there: it is refused, like an empty text. */
inline const char *c_str(const text &of) noexcept
{
	return !of ? nullptr : of->find('\0') == std::string::npos ? of->c_str() : "";
}

/* Since 1970, rounded up so that nothing is early.  Times out of range become an end of int64_t, which is refused. */
template <class Duration> std::int64_t since_1970(std::chrono::time_point<std::chrono::system_clock, Duration> when)
{
	const long double s = std::chrono::duration<long double>(when.time_since_epoch()).count();

	if (!(s <= 253402300800))
		return INT64_MAX;
	if (s <= -1)
		return INT64_MIN;
	return std::chrono::ceil<std::chrono::microseconds>(when.time_since_epoch()).count();
}

} // namespace detail

/* The result of a task: done, failed with an errno value, or the answer of again, give_up or end_series for its run. */
class answer
{
      public:
	answer() noexcept = default;
	answer(int value) noexcept : value_(value)
	{
	}
	answer(const std::error_code &error) noexcept
	{
		const std::error_condition is = error.default_error_condition();

		if (error)
			value_ = is.category() == std::generic_category() ? is.value() : ECANCELED;
	}

	int native() const noexcept
	{
		return value_;
	}

      private:
	int value_ = 0;
};

/* hwt_store_again.  For the other answers use the C calls. */
template <class Rep, class Period>
answer again(const hwt_store_run &run, std::chrono::duration<Rep, Period> delay) noexcept
{
	return hwt_store_again(&run, detail::nanoseconds(delay));
}

/* Valid as long as the run. */
inline std::string_view data(const hwt_store_run &run) noexcept
{
	return std::string_view(static_cast<const char *>(run.data), run.len);
}

/* Owns a run that store.next has handed out.  Destroying it before its end fails the run: ECANCELED. */
class pulled
{
      public:
	pulled() noexcept = default;
	pulled(hwt_store_run *run, std::weak_ptr<const void> store) noexcept : run_(run), store_(std::move(store))
	{
	}
	pulled(pulled &&other) noexcept : run_(std::exchange(other.run_, nullptr)), store_(std::move(other.store_))
	{
	}
	pulled &operator=(pulled &&other) noexcept
	{
		std::swap(run_, other.run_);
		store_.swap(other.store_);
		return *this;
	}
	~pulled()
	{
		if (run_ != nullptr)
			(void)end(ECANCELED);
	}

	/* hwt_store_end, on any thread.  *this is empty then, except after EINVAL and EDEADLK.  ESTALE also: the store is gone. */
	std::error_code end(answer how) noexcept
	{
		const std::shared_ptr<const void> open = store_.lock();
		const int rc = run_ != nullptr && !open ? ESTALE : hwt_store_end(run_, how.native());

		if (rc != EINVAL && rc != EDEADLK)
			run_ = nullptr;
		return detail::error(rc);
	}

	const hwt_store_run &operator*() const noexcept
	{
		return *run_;
	}
	const hwt_store_run *operator->() const noexcept
	{
		return run_;
	}
	explicit operator bool() const noexcept
	{
		return run_ != nullptr;
	}

      private:
	hwt_store_run *run_ = nullptr;
	std::weak_ptr<const void> store_;
};

/* A hwt_store_spec that chained calls fill in. */
class spec
{
      public:
	explicit spec(std::string kind) : kind_(std::move(kind))
	{
	}
	spec &data(std::string_view data)
	{
		data_ = data;
		return *this;
	}
	spec &key(std::string key)
	{
		key_ = std::move(key);
		return *this;
	}
	spec &group(std::string group)
	{
		group_ = std::move(group);
		return *this;
	}
	template <class Rep, class Period> spec &in(std::chrono::duration<Rep, Period> delay) noexcept
	{
		more.delay_ns = detail::nanoseconds(delay);
		more.flags &= ~HWT_STORE_ABSOLUTE;
		return *this;
	}
	template <class Duration> spec &at(std::chrono::time_point<std::chrono::system_clock, Duration> when) noexcept
	{
		more.due_us = detail::since_1970(when);
		more.flags |= HWT_STORE_ABSOLUTE;
		return *this;
	}
	template <class Rep, class Period> spec &every(std::chrono::duration<Rep, Period> period) noexcept
	{
		const std::int64_t ns = detail::nanoseconds(period);

		more.period_ns = ns > 0 ? ns : -1; /* 0 would be once */
		return *this;
	}
	spec &cron(std::string line, std::optional<std::string> zone = {})
	{
		schedule_ = std::move(line);
		zone_ = std::move(zone);
		return *this;
	}
	spec &replace() noexcept
	{
		more.flags |= HWT_STORE_REPLACE;
		return *this;
	}
	spec &revive() noexcept
	{
		more.flags |= HWT_STORE_REVIVE;
		return *this;
	}
	spec &keep_due() noexcept
	{
		more.flags |= HWT_STORE_KEEP_DUE;
		return *this;
	}

	/* For priority, grace_ns and spread_ns. */
	hwt_store_spec more = HWT_STORE_SPEC_INIT;

	/* Valid until *this is changed or destroyed. */
	hwt_store_spec native() const noexcept
	{
		hwt_store_spec of = more;

		of.kind = detail::c_str(kind_);
		of.key = detail::c_str(key_);
		of.group = detail::c_str(group_);
		of.schedule = detail::c_str(schedule_);
		of.zone = detail::c_str(zone_);
		of.data = data_.data();
		of.len = data_.size();
		return of;
	}

      private:
	detail::text kind_, key_, group_, schedule_, zone_;
	std::string data_;
};

/* Which timeouts a call is about: hwt_store_which. */
class which
{
      public:
	which(std::int64_t id) noexcept
	{
		more.id = id;
	}
	which(std::string kind, std::string key, std::optional<std::string> group = {})
	    : kind_(std::move(kind)), key_(std::move(key)), group_(std::move(group))
	{
	}

	/* All of the group, or of no group; and all of the kind. */
	static which all(std::string kind, std::optional<std::string> group = {})
	{
		which of(std::move(kind), {}, std::move(group));

		of.key_.reset();
		of.more.all = true;
		return of;
	}
	static which whole(std::string kind)
	{
		which of = all(std::move(kind));

		of.more.any_group = true;
		return of;
	}

	/* For states. */
	hwt_store_which more = HWT_STORE_WHICH_INIT;

	/* Valid until *this is changed or destroyed. */
	hwt_store_which native() const noexcept
	{
		hwt_store_which of = more;

		of.kind = detail::c_str(kind_);
		of.key = detail::c_str(key_);
		of.group = detail::c_str(group_);
		return of;
	}

      private:
	detail::text kind_, key_, group_;
};

/* When something is due: after a delay, or at a time. */
class when : public hwt_store_when
{
      public:
	template <class Rep, class Period>
	when(std::chrono::duration<Rep, Period> delay) noexcept : hwt_store_when{ detail::nanoseconds(delay), 0 }
	{
	}
	template <class Duration>
	when(std::chrono::time_point<std::chrono::system_clock, Duration> due) noexcept
	    : hwt_store_when{ 0, detail::since_1970(due) }
	{
		if (due_us == 0)
			due_us = 1; /* 0 would be a delay */
	}
};

/* The connections to one database and, once started, the threads that run what is due there. */
class store
{
      public:
	/* hwt_store_open; throws std::system_error. */
	explicit store(const std::string &url, const hwt_store_config &config = store_defaults())
	    : self_(new self{ nullptr, config.warn, config.warn_ctx, {}, {} })
	{
		open(url, config);
	}

	/* The same; calls ended(const hwt_store_ended &) for each end.  An exception from ended ends the process. */
	store(const std::string &url, std::function<void(const hwt_store_ended &)> ended,
	      hwt_store_config config = store_defaults())
	    : self_(new self{ nullptr, config.warn, config.warn_ctx, {}, std::move(ended) })
	{
		config.ended = self::tell;
		config.ended_ctx = self_.get();
		open(url, config);
	}

	/* hwt_store_register.  callable(const hwt_store_run &) returns void, or a value that converts to an answer. */
	template <class F> [[nodiscard]] std::error_code add(hwt_store_kind of, F &&callable)
	{
		using result = std::invoke_result_t<F &, const hwt_store_run &>;
		static_assert(!std::is_same_v<result, bool>, "true would be EPERM");
		std::function<result(const hwt_store_run &)> function(std::forward<F>(callable));

		of.task = nullptr;
		if (!function)
			return detail::error(hwt_store_register(self_->store, &of));
		self_->tasks.push_back({ self_.get(), [function](const hwt_store_run &run) -> answer {
						if constexpr (std::is_void_v<result>)
							return function(run), answer();
						else
							return function(run);
					} });
		of.task = task::call;
		of.ctx = &self_->tasks.back();
		const int rc = hwt_store_register(self_->store, &of);

		if (rc != 0)
			self_->tasks.pop_back();
		return detail::error(rc);
	}

	/* The same with HWT_STORE_PULLED: next hands out the runs. */
	[[nodiscard]] std::error_code add(hwt_store_kind of) noexcept
	{
		of.flags |= HWT_STORE_PULLED;
		return detail::error(hwt_store_register(self_->store, &of));
	}

	/* hwt_store_start, hwt_store_stop. */
	[[nodiscard]] std::error_code start() noexcept
	{
		return detail::error(hwt_store_start(self_->store));
	}
	std::error_code stop() noexcept
	{
		return detail::error(hwt_store_stop(self_->store));
	}

	/* hwt_store_put; *id also after file_exists.  put_on: on sqlite3 or PGconn of the caller's, hwt_store_put_on. */
	[[nodiscard]] std::error_code put(const spec &what, std::int64_t *id = nullptr) noexcept
	{
		const hwt_store_spec native = what.native();

		return detail::error(hwt_store_put(self_->store, &native, id));
	}
	[[nodiscard]] std::error_code put_on(void *connection, const spec &what, std::int64_t *id = nullptr) noexcept
	{
		const hwt_store_spec native = what.native();

		return detail::error(hwt_store_put_on(self_->store, connection, &native, id));
	}
	/* hwt_store_put_many: all or none. */
	[[nodiscard]] std::error_code put(const std::vector<spec> &all)
	{
		std::vector<hwt_store_spec> native;

		for (const spec &one : all)
			native.push_back(one.native());
		return detail::error(hwt_store_put_many(self_->store, native.data(), native.size(), nullptr));
	}

	/* hwt_store_cancel_ex, hwt_store_reschedule_ex; *n: how many timeouts were changed. */
	std::error_code cancel(const which &of, std::uint64_t *n = nullptr) noexcept
	{
		const hwt_store_which native = of.native();

		return detail::error(hwt_store_cancel_ex(self_->store, &native, n));
	}
	std::error_code reschedule(const which &of, when due, std::uint64_t *n = nullptr) noexcept
	{
		const hwt_store_which native = of.native();

		return detail::error(hwt_store_reschedule_ex(self_->store, &native, due, n));
	}

	/* hwt_store_get_ex; info begins as HWT_STORE_INFO_INIT. */
	[[nodiscard]] std::error_code get(const which &of, hwt_store_info &info) noexcept
	{
		const hwt_store_which native = of.native();

		return detail::error(hwt_store_get_ex(self_->store, &native, &info));
	}
	/* hwt_store_each_ex: f(const hwt_store_info &), until it returns false. */
	template <class F> [[nodiscard]] std::error_code each(const which &of, F &&f)
	{
		const hwt_store_which native = of.native();

		return list<hwt_store_info>(
		    f, [&](auto visit, void *ctx) { return hwt_store_each_ex(self_->store, &native, visit, ctx); });
	}

	/* hwt_store_each_kind: f(const hwt_store_kind_info &), until it returns false. */
	template <class F> [[nodiscard]] std::error_code each_kind(F &&f)
	{
		return list<hwt_store_kind_info>(
		    f, [&](auto visit, void *ctx) { return hwt_store_each_kind(self_->store, visit, ctx); });
	}
	/* hwt_store_each_group: f(const hwt_store_group_info &), until it returns false. */
	template <class F> [[nodiscard]] std::error_code each_group(std::string kind, F &&f)
	{
		const detail::text of(std::move(kind));

		return list<hwt_store_group_info>(f, [&](auto visit, void *ctx) {
			return hwt_store_each_group(self_->store, detail::c_str(of), visit, ctx);
		});
	}

	/* hwt_store_read_stats, hwt_store_read_kind_stats; out begins as HWT_STORE_STATS_INIT. */
	[[nodiscard]] std::error_code stats(hwt_store_stats &out) noexcept
	{
		return detail::error(hwt_store_read_stats(self_->store, &out));
	}
	[[nodiscard]] std::error_code stats(std::string kind, hwt_store_stats &out) noexcept
	{
		const detail::text of(std::move(kind));

		return detail::error(hwt_store_read_kind_stats(self_->store, detail::c_str(of), &out));
	}

	/* hwt_store_fd, hwt_store_next.  If `out` still has a run, that run fails, as in its destructor. */
	[[nodiscard]] std::error_code fd(int &fd) noexcept
	{
		return detail::error(hwt_store_fd(self_->store, &fd));
	}
	[[nodiscard]] std::error_code next(pulled &out) noexcept
	{
		hwt_store_run *run = nullptr;
		const int rc = hwt_store_next(self_->store, &run);

		if (rc == 0)
			out = pulled(run, self_);
		return detail::error(rc);
	}

	/* For the C calls.  After a move only the destructor and another move may follow. */
	hwt_store *native() const noexcept
	{
		return self_->store;
	}

      private:
	struct self;

	struct task {
		self *of;
		std::function<answer(const hwt_store_run &)> function;

		static int call(const hwt_store_run *run, void *ctx) noexcept
		{
			const task &self = *static_cast<task *>(ctx);

			try {
				return self.function(*run).native();
			} catch (const std::exception &error) {
				if (self.of->warn != nullptr)
					self.of->warn(self.of->warn_ctx, error.what());
				return hwt_store_fail(run, error.what());
			} catch (...) {
				return ECANCELED;
			}
		}
	};

	template <class Info, class F> struct each_call {
		F &f;
		std::exception_ptr thrown;

		static bool call(void *ctx, const Info *info) noexcept
		{
			each_call &self = *static_cast<each_call *>(ctx);

			try {
				return self.f(*info);
			} catch (...) {
				self.thrown = std::current_exception();
				return false;
			}
		}
	};

	/* Calls each(visit, ctx), a C call that calls visit, and so f, with each Info. */
	template <class Info, class F, class Each> static std::error_code list(F &f, Each each)
	{
		each_call<Info, F> ctx{ f, nullptr };
		const int rc = each(ctx.call, &ctx);

		if (ctx.thrown)
			std::rethrow_exception(ctx.thrown);
		return detail::error(rc);
	}

	/* The part that keeps its address when a store is moved. */
	struct self {
		hwt_store *store;
		void (*warn)(void *ctx, const char *message);
		void *warn_ctx;
		std::list<task> tasks;
		std::function<void(const hwt_store_ended &)> ended;

		static void tell(void *ctx, const hwt_store_ended *end) noexcept
		{
			static_cast<self *>(ctx)->ended(*end);
		}

		~self()
		{
			if (store != nullptr && hwt_store_close(store) != 0)
				std::terminate(); /* destroyed in a task of its own */
		}
	};

	void open(const std::string &url, const hwt_store_config &config)
	{
		char text[512] = "";
		const int rc = hwt_store_open(&self_->store, url.c_str(), &config, text, sizeof(text));

		if (rc != 0)
			throw std::system_error(rc, std::generic_category(), text);
	}

	std::shared_ptr<self> self_;
};

} // namespace hwt

#endif /* HWT_STORE_HPP */
