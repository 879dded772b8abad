/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Boost.Asio: a steady_timer for each timeout, one thread in io_context::run.
 *
 * Configuration: concurrency hint 1 (one thread runs it, others may call it); timers inside pooled nodes, constructed
 * once.  A cancelled timer's handler goes through the loop, as it does for every user.
 */
#include "nodes.h"
#include "subject.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/version.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <new>
#include <thread>

namespace
{

using boost::asio::io_context;
using boost::asio::steady_timer;
using clock_type = std::chrono::steady_clock;

struct node {
	void *link;
	void *arg;
	alignas(steady_timer) unsigned char room[sizeof(steady_timer)];
	bool constructed;
	bool pending; /* written at the end; asio's lock orders the writes */

	steady_timer &timer()
	{
		return *std::launder(reinterpret_cast<steady_timer *>(room));
	}
};

struct loop {
	io_context context{ 1 };
	boost::asio::executor_work_guard<io_context::executor_type> guard{ context.get_executor() };
	subject_task *task;
	std::thread thread;
	struct nodes nodes;
};

loop *self;

void fire(node *one, const boost::system::error_code &error)
{
	if (error)
		return; /* cancelled: the node may serve another timeout by now */
	one->pending = false;
	self->task(one->arg);
	nodes_give(&self->nodes, one);
}

void *asio_init(const subject_config *, subject_task *task)
{
	self = new loop;
	self->task = task;
	nodes_init(&self->nodes, sizeof(node));
	self->thread = std::thread([] { self->context.run(); });
	return self;
}

void wait(node *one)
{
	one->timer().async_wait([one](const boost::system::error_code &error) { fire(one, error); });
}

int schedule_until(void *arg, clock_type::time_point when, handle *out)
{
	auto *one = static_cast<node *>(nodes_take(&self->nodes));

	if (!one)
		return ENOMEM;
	if (!one->constructed) {
		new (one->room) steady_timer(self->context);
		one->constructed = true;
	}
	one->arg = arg;
	one->pending = true;
	out->pointer = one;
	one->timer().expires_at(when);
	wait(one);
	return 0;
}

int asio_schedule(void *, void *arg, int64_t delay_ns, handle *out)
{
	return schedule_until(arg, clock_type::now() + std::chrono::nanoseconds(delay_ns), out);
}

/* libstdc++'s steady_clock is CLOCK_MONOTONIC. */
int asio_schedule_at(void *, void *arg, int64_t deadline_ns, handle *out)
{
	return schedule_until(arg, clock_type::time_point(std::chrono::nanoseconds(deadline_ns)), out);
}

int asio_cancel(void *, handle *which)
{
	auto *one = static_cast<node *>(which->pointer);

	if (one->timer().cancel() == 0)
		return EBUSY;
	one->pending = false;
	nodes_give(&self->nodes, one);
	return 0;
}

int asio_reschedule(void *, handle *which, int64_t delay_ns)
{
	auto *one = static_cast<node *>(which->pointer);

	if (one->timer().expires_after(std::chrono::nanoseconds(delay_ns)) == 0)
		return EBUSY;
	wait(one);
	return 0;
}

uint64_t count_pending(void *item)
{
	return static_cast<node *>(item)->pending;
}

uint64_t end_timer(void *item)
{
	auto *one = static_cast<node *>(item);

	if (one->constructed)
		one->timer().~steady_timer();
	return 0;
}

uint64_t asio_destroy(void *)
{
	uint64_t left;

	self->context.stop();
	self->thread.join();
	left = nodes_each(&self->nodes, count_pending);
	nodes_each(&self->nodes, end_timer);
	nodes_destroy(&self->nodes);
	delete self;
	return left;
}

const char *asio_version()
{
	static char version[32];

	(void)std::snprintf(version, sizeof(version), "%d.%d.%d", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
			    BOOST_VERSION % 100);
	return version;
}

subject make_subject()
{
	subject table = {};

	table.size = sizeof(table);
	table.name = "asio";
	table.version = asio_version;
	table.init = asio_init;
	table.schedule = asio_schedule;
	table.schedule_at = asio_schedule_at;
	table.cancel = asio_cancel;
	table.reschedule = asio_reschedule;
	table.destroy = asio_destroy;
	table.churn_max = 5000000;
	table.rank = RANK_OTHER;
	return table;
}

} // namespace

extern "C" {
extern const subject rival;
const subject rival = make_subject();
}
