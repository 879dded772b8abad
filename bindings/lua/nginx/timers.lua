-- SPDX-License-Identifier: BSD-2-Clause
-- Timers for ngx_lua: any number of them, which can be cancelled, behind one timer of nginx for each worker process.
--
--   init_worker_by_lua_block { require("timers").start() }
--
--   local timers = require "timers"
--   local id = timers.at(30, expire, session)     -- expire(session) in 30 seconds
--   timers.cancel(id)                             -- true: it will not be called
--
-- A callback may wait (ngx.sleep, cosockets): the next turn goes on with those behind it.  They share the context of a
-- turn, so one that waits for long gets a light thread of its own (ngx.thread.spawn).

local hwt = require "hwt"

local TICK = 0.01
local wheel

local timers = {}

-- Calls func(arg) once in `delay` seconds.  Returns a handle, or nil and a reason.
function timers.at(delay, func, arg)
	return wheel:schedule(delay, { func, arg })
end

-- Calls func(arg) each `period` seconds.
function timers.every(period, func, arg)
	return wheel:every(period, { func, arg })
end

function timers.cancel(id)
	return wheel:cancel(id)
end

function timers.stats()
	return wheel:stats()
end

local function turn(premature)
	if not premature then
		wheel:advance()
	end
end

-- An error of a callback goes to the log, and the others are called all the same.
local function call(task)
	local ok, message = pcall(task[1], task[2])

	if not ok then
		ngx.log(ngx.ERR, "a timer: ", message)
	end
end

function timers.start()
	wheel = assert(hwt.new { tick = TICK, wheel = "hierarchical", call = call })
	assert(ngx.timer.every(TICK, turn))
end

return timers
