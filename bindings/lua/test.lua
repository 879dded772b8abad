-- SPDX-License-Identifier: BSD-2-Clause
-- test.lua ABI [WORD]: tests hwt.lua, and speaks TAP.  ABI is test/abi.txt, with which the declarations are compared.

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path
local ffi = require "ffi"
local hwt = require "hwt"

local tests, names = {}, {}
setmetatable(tests, { __newindex = function(_, name, test)
	names[#names + 1] = name
	rawset(tests, name, test)
end })

local function equal(found, wanted, what)
	if found ~= wanted then
		error((what or "") .. ": " .. tostring(found) .. " instead of " .. tostring(wanted), 2)
	end
end

local function near(found, wanted)
	if math.abs(found - wanted) > 1e-9 then
		error(found .. " instead of " .. wanted, 2)
	end
end

-- The error names the line of the caller, and says so.
local function fails(says, call, ...)
	local ok, message = pcall(call, ...)

	if ok then
		error("no error: " .. says, 2)
	end
	if not message:find(says, 1, true) then
		error(message .. " instead of " .. says, 2)
	end
end

local log = {}

local function virtual(options)
	options = options or {}
	options.clock, options.tick = "virtual", options.tick or 0.001
	options.call = options.call or function(value, _, missed)
		log[#log + 1] = value .. (missed > 0 and "+" .. missed or "")
	end
	log = {}
	return assert(hwt.new(options))
end

local function logged(wanted)
	local found = table.concat(log, " ")

	log = {}
	equal(found, wanted, "what has fired")
end

function tests.declarations_are_those_of_the_header()
	local types = { hwt_config = true, hwt_stats = true, hwt_fired = true, hwt_timeout = true }
	local seen = 0

	for line in io.lines(arg[1]) do
		local size_of, size = line:match("^sizeof ([%w_]+) = (%d+)$")
		local type, member, at = line:match("^([%w_]+)%.([%w_]+) at (%d+),")

		if types[size_of] then
			equal(ffi.sizeof(size_of), tonumber(size), line)
			seen = seen + 1
		elseif types[type] then
			equal(ffi.offsetof(type, member), tonumber(at), line)
			seen = seen + 1
		end
	end
	assert(seen > 50, "abi.txt was not read")
	equal(ffi.new("hwt_config").size, 0ULL)
end

function tests.what_is_due_fires_in_the_order_of_ticks()
	local timer = virtual()

	timer:schedule(0.007, "c")
	timer:schedule(0.003, "a")
	timer:schedule(0.003, "b")
	timer:schedule(9, "d")
	equal(timer:pending(), 4)
	near(timer:advance(0), 0.003)
	near(timer:next(), 0.003)
	logged ""
	local sleep, fired = timer:advance(0.0075)
	near(sleep, 9 - 0.0075)
	equal(fired, 3)
	logged "a b c"
	equal(timer:advance(9), math.huge)
	logged "d"
	equal(timer:pending(), 0)
end

function tests.functions_are_called_by_default()
	local timer, seen = assert(hwt.new { clock = "virtual" }), {}
	local id = timer:schedule(1, function(...) seen = { n = select("#", ...), ... } end)

	timer:advance(1)
	equal(seen.n, 2)
	equal(seen[1], id)
	equal(seen[2], 0)
end

function tests.any_value_comes_back()
	local values, seen = { false, 0, "", {}, print, coroutine.create(print), 1.5 }, {}
	local timer = virtual { call = function(value) seen[#seen + 1] = value end }

	for _, value in ipairs(values) do
		assert(timer:schedule(0, value))
	end
	timer:advance(1)
	for i, value in ipairs(values) do
		equal(seen[i], value)
	end
	equal(#seen, #values)
end

function tests.more_than_a_batch_fires_in_one_advance()
	local timer, sum = virtual { call = function() end }, 0

	for i = 1, 5000 do
		sum = sum + i
		timer:schedule(0.001 + i % 7 * 0.001, i)
	end
	local _, fired = timer:advance(1)
	equal(fired, 5000)
	local stats = timer:stats()
	equal(stats.completed, 5000)
	equal(stats.accepted, 5000)
	local late = 0
	for i = 0, 31 do
		late = late + stats.lateness[i]
	end
	equal(late, 5000)
end

function tests.a_cancelled_one_does_not_fire()
	local timer = virtual()
	local a, b = timer:schedule(1, "a"), timer:schedule(1, "b")

	equal(timer:is_pending(a), true)
	equal(timer:cancel(a), true)
	equal(timer:is_pending(a), false)
	equal(timer:cancel(a), false)
	equal(timer:cancel(nil), false)
	equal(timer:advance(1), math.huge)
	logged "b"
	equal(timer:cancel(b), false)
	equal(timer:stats().cancelled, 1)
end

-- Also when its slot, and the memory of the library, serve another one.
function tests.a_stale_handle_does_nothing()
	local timer = virtual()
	local stale, seen = {}, {}

	for i = 1, 100 do
		stale[i] = timer:schedule(0, "x")
		assert(not seen[stale[i]])
		seen[stale[i]] = true
		timer:advance(i)
	end
	logged(("x "):rep(100):sub(1, -2))
	local id = timer:schedule(1, "new")
	for i = 1, 100 do
		equal(timer:cancel(stale[i]), false)
		equal(timer:is_pending(stale[i]), false)
		equal(select(2, timer:reschedule(stale[i], 1)), "ended")
		equal(select(2, timer:left(stale[i])), "ended")
	end
	for _, other in ipairs { 0, -1, 1, 1.5, 2 ^ 60, math.huge, -math.huge, 0 / 0, id + 1, id + 2 ^ 24 } do
		equal(timer:cancel(other), false)
	end
	equal(timer:cancel(id), true)
end

function tests.a_handle_of_a_slot_that_is_used_up_is_the_last()
	local timer = virtual()
	local id = timer:schedule(1, "a")
	local slot, last = id % 2 ^ 24, 2 ^ 53 - 2 ^ 25 + id % 2 ^ 24

	timer.ids[slot] = last -- as after half a thousand million others
	equal(timer:cancel(last), true)
	local other = timer:schedule(1, "b")
	assert(other % 2 ^ 24 ~= slot, "the slot is used once more")
	equal(timer:cancel(last), false)
	timer:advance(1)
	logged "b"
end

function tests.what_is_moved_fires_at_the_new_time()
	local timer = virtual()
	local a = timer:schedule(1, "a")

	equal(timer:reschedule(a, 3), true)
	near(timer:left(a), 3)
	timer:advance(2)
	logged ""
	equal(timer:reschedule(a, 0.5), true)
	near(timer:left(a), 0.5)
	timer:advance(2.5)
	logged "a"
	equal(select(2, timer:reschedule(a, 1)), "ended")
	equal(timer:reschedule(nil, 1), nil)
end

function tests.a_periodic_one_goes_on_until_it_is_cancelled()
	local timer = virtual()
	local a = timer:every(1, "a", 0.5)

	near(timer:advance(0.5), 1)
	logged "a"
	timer:advance(3.6)
	logged "a+2"
	equal(timer:is_pending(a), true)
	equal(timer:reschedule(a, 0.1), true)
	timer:advance(3.7)
	logged "a"
	near(timer:left(a), 1)
	equal(timer:cancel(a), true)
	equal(timer:cancel(a), false)
	equal(timer:advance(10), math.huge)
	logged ""
	timer:every(1, "b")
	timer:advance(11)
	logged "b"
end

function tests.a_periodic_one_ends_itself()
	local timer, runs
	timer, runs = virtual { call = function(value, id)
		runs = runs + 1
		if runs == 3 then
			equal(timer:cancel(id), true)
		end
	end }, 0
	timer:every(1, "a")
	for i = 1, 5 do
		timer:advance(i)
	end
	equal(runs, 3)
end

-- b and c are in the same batch.
function tests.what_is_further_on_in_the_batch_is_cancelled_and_moved()
	local timer, b, c, d, e
	timer = virtual { call = function(value)
		log[#log + 1] = value
		if value == "a" then
			equal(timer:is_pending(b), true)
			equal(timer:left(b), 0)
			equal(timer:cancel(b), true)
			equal(timer:cancel(b), false)
			equal(timer:cancel(d), true)
			equal(timer:reschedule(c, 5), true)
			near(timer:left(c), 5)
			e = timer:schedule(2, "e") -- has the slot of b or d
		end
	end }
	timer:schedule(1, "a")
	b, c, d = timer:schedule(1, "b"), timer:schedule(1, "c"), timer:every(1, "d")
	near(timer:advance(1), 2)
	logged "a"
	timer:advance(5.9)
	logged "e"
	timer:advance(6)
	logged "c"
	equal(timer:is_pending(e), false)
	equal(timer:pending(), 0)
end

-- Whatever slots and records of the library the new ones get.
function tests.a_slot_of_the_batch_serves_others()
	local timer, mine, far, calls

	math.randomseed(1)
	timer = virtual { call = function()
		calls = calls + 1
		for _, id in ipairs(mine) do
			timer:cancel(id)
		end
		for i = 1, math.random(200) do
			far[i] = timer:schedule(1000, i)
		end
	end }
	for round = 1, 300 do
		mine, far, calls = {}, {}, 0
		for i = 1, math.random(200) do
			mine[i] = timer:schedule(0.001, i)
		end
		timer:advance(round)
		equal(calls, 1)
		equal(timer:pending(), #far)
		for _, id in ipairs(far) do
			equal(timer:cancel(id), true)
		end
	end
end

function tests.a_call_may_schedule()
	local timer
	timer = virtual { call = function(value)
		log[#log + 1] = value
		if value < 5 then
			assert(timer:schedule(value == 4 and 1 or 0, value + 1))
		end
	end }
	timer:schedule(1, 1)
	near(timer:advance(1), 0.001) -- the answer knows of it
	for i = 1, 3 do
		timer:advance(1 + i / 1000)
	end
	logged "1 2 3 4"
	near(timer:next(), 1)
end

function tests.an_error_comes_through_and_nothing_is_lost()
	local timer = virtual { call = function(value)
		if value == "bad" then
			error "as it must"
		end
		log[#log + 1] = value
	end }

	for _, value in ipairs { "a", "bad", "b", "c" } do
		timer:schedule(1, value)
	end
	fails("as it must", timer.advance, timer, 1)
	logged "a"
	equal(timer:next(), 0)
	local sleep, fired = timer:advance(1)
	equal(sleep, math.huge)
	equal(fired, 2)
	logged "b c"
end

function tests.a_call_may_advance_and_yield()
	local timer
	timer = virtual { call = function(value)
		log[#log + 1] = value
		if value == "a" then
			timer:advance(1)
		elseif value == "c" then
			coroutine.yield()
		end
	end }
	for _, value in ipairs { "a", "b", "c", "d" } do
		timer:schedule(1, value)
	end
	local first = coroutine.wrap(function() return timer:advance(1) end)
	first()
	logged "a b c"
	timer:advance(1)
	logged "d"
	equal(first(), math.huge)
	logged ""
end

function tests.a_limit_is_told()
	local timer = virtual { max_pending_timeouts = 2 }
	local a, b = timer:schedule(1, "a"), timer:schedule(1, "b")

	assert(a and b)
	for _ = 1, 3 do
		local id, why = timer:schedule(1, "c")
		equal(id, nil)
		equal(why, "too many pending timeouts")
	end
	equal(select(2, timer:every(1, "c")), "too many pending timeouts")
	timer:cancel(a)
	assert(timer:schedule(1, "c"))
	timer:advance(1)
	logged "b c"
	assert(timer.last <= 3, "what is refused takes no slot")
	equal(timer:stats().refused_limit, 4)
end

function tests.times_that_are_far_off()
	local timer = virtual()
	local a = timer:schedule(math.huge, "a")

	equal(timer:left(a) > 9e9, true)
	timer:schedule(-math.huge, "b")
	timer:schedule(1e300, "c")
	timer:schedule_at(-5, "d")
	timer:schedule_at(2, "e")
	timer:advance(0)
	timer:advance(1)
	logged "b d"
	timer:advance(2)
	logged "e"
end

function tests.what_makes_no_sense_is_an_error()
	local timer = virtual()
	local id = timer:schedule(1, "a")

	fails("a time in seconds expected", timer.schedule, timer, "1", "a")
	fails("a time in seconds expected", timer.schedule, timer, nil, "a")
	fails("a time in seconds expected", timer.schedule, timer, 0 / 0, "a")
	fails("something to schedule expected", timer.schedule, timer, 1)
	fails("something to schedule expected", timer.every, timer, 1)
	fails("a period is at least a tick", timer.every, timer, 0.0001, "a")
	fails("a time in seconds expected", timer.reschedule, timer, id)
	fails("a handle expected", timer.cancel, timer, "a")
	fails("a virtual clock has to be told the time", timer.advance, timer)
	fails("a time in seconds expected", timer.advance, timer, "now")
	fails("no such option: ticks", hwt.new, { ticks = 1 })
	fails("tick: number expected, got string", hwt.new, { tick = "1" })
	fails("no such clock: sun", hwt.new, { clock = "sun" })
	fails("no such wheel: big", hwt.new, { wheel = "big" })
	fails("an option is out of range", hwt.new, { tick = 0 })
	fails("no such clock", hwt.now, "virtual")
	equal(timer:pending(), 1)
	equal(select(2, timer:fd()), "a virtual clock has no descriptor")
	timer:advance(1)
	logged "a"
end

function tests.an_error_names_the_line_of_the_caller()
	local timer, closed = virtual(), virtual()

	closed:destroy()
	for _, call in ipairs {
		function() timer:schedule("1", "a") end,
		function() timer:schedule(1, nil) end,
		function() timer:every(0, "a") end,
		function() timer:cancel("a") end,
		function() timer:reschedule(1, "a") end,
		function() timer:advance() end,
		function() timer:advance("a") end,
		function() closed:schedule(1, "a") end,
		function() closed:advance(1) end,
		function() closed:next() end,
		function() hwt.new { ticks = 1 } end,
		function() hwt.new { tick = "1" } end,
		function() hwt.new { tick = 0 / 0 } end,
		function() hwt.new { tick = 0 } end,
		function() hwt.now "virtual" end,
	} do
		local line = debug.getinfo(call).linedefined
		fails("test.lua:" .. line .. ":", call)
	end
end

function tests.a_destroyed_timer_says_so()
	local timer = virtual()
	local id = timer:schedule(1, "a")

	timer:destroy()
	timer:destroy()
	equal(timer:cancel(id), false)
	equal(timer:is_pending(id), false)
	equal(timer:pending(), 0)
	for _ = 1, 2 do
		fails("the timer has been destroyed", timer.schedule, timer, 1, "a")
	end
	fails("the timer has been destroyed", timer.advance, timer, 1)
	fails("the timer has been destroyed", timer.next, timer)
	fails("the timer has been destroyed", timer.fd, timer)
	fails("the timer has been destroyed", timer.stats, timer)
	logged ""
end

function tests.a_call_may_destroy()
	local timer
	timer = virtual { call = function(value)
		log[#log + 1] = value
		timer:destroy()
	end }
	timer:schedule(1, "a")
	timer:schedule(1, "b")
	equal(timer:advance(1), math.huge)
	logged "a"
end

ffi.cdef "int hwt_timer_config(const hwt_timer *timer, hwt_config *out);"

function tests.options_are_those_of_the_timer()
	local C = ffi.load "libhwt.so.0"
	local timer = assert(hwt.new { tick = 0.0005, wheel = "hierarchical", clock = "boottime", ticks_per_wheel = 64,
		max_pending_timeouts = 7 })
	local config = ffi.new("hwt_config", { size = ffi.sizeof "hwt_config" })

	equal(C.hwt_timer_config(timer.timer, config), 0)
	equal(tonumber(config.tick_duration_ns), 500000)
	equal(config.wheel, 1)
	equal(config.clock, 1)
	equal(config.ticks_per_wheel, 64)
	equal(tonumber(config.max_pending_timeouts), 7)
	equal(config.flags, 11)
	timer = assert(hwt.new())
	equal(C.hwt_timer_config(timer.timer, config), 0)
	equal(tonumber(config.tick_duration_ns), 1e8)
	equal(config.flags, 10)
end

local function resident()
	for line in io.lines "/proc/self/status" do
		if line:find "^VmRSS" then
			return tonumber(line:match "%d+") * 1024
		end
	end
end

function tests.timers_that_are_collected_are_destroyed()
	local before

	for i = 1, 3000 do
		virtual():schedule(1, "a")
		if i % 100 == 0 then
			collectgarbage()
			collectgarbage()
		end
		before = before or i == 500 and resident()
	end
	assert(resident() - before < 20e6)
end

function tests.what_is_collected_is_freed()
	local released = setmetatable({}, { __mode = "k" })

	for _ = 1, 200 do
		local timer, value = virtual(), {}

		released[value] = true
		timer:schedule(1, value)
		released[timer] = true
	end
	collectgarbage()
	collectgarbage()
	equal(next(released), nil)
end

function tests.values_are_not_kept()
	local timer, weak = virtual { call = function() end }, setmetatable({}, { __mode = "v" })

	weak.fired, weak.cancelled = {}, {}
	timer:schedule(1, weak.fired)
	timer:cancel(timer:schedule(1, weak.cancelled))
	timer:advance(1)
	collectgarbage()
	equal(weak.fired, nil)
	equal(weak.cancelled, nil)
end

ffi.cdef [[
struct hwt_lua_pollfd { int fd; short events, revents; };
int poll(struct hwt_lua_pollfd *set, unsigned long n, int timeout);
]]

-- As a loop of one's own: it sleeps on the descriptor, or for as long as advance says.
function tests.on_the_clock_it_is_never_early()
	for _, clock in ipairs { "monotonic", "boottime", "realtime" } do
		local timer, count = assert(hwt.new { tick = 0.0005, clock = clock, wheel = "hierarchical" }), 0
		local set = ffi.new("struct hwt_lua_pollfd[1]", { { fd = assert(timer:fd()), events = 1 } })

		timer:advance()
		for i = 1, 20 do
			local due = hwt.now(clock) + i * 0.001
			assert(timer:schedule(i * 0.001, function()
				count = count + 1
				assert(hwt.now(clock) >= due - 1e-6, "early")
			end))
		end
		while count < 20 do
			assert(ffi.C.poll(set, 1, 60000) == 1)
			timer:advance()
		end
		equal(timer:advance(), math.huge)
		equal(ffi.C.poll(set, 1, 0), 0)
		timer:destroy()
	end
end

-- Against a model: a table of what is due when.
function tests.random_programs_agree_with_a_table()
	local seed = tonumber(os.getenv "HWT_SEED") or 1

	print("# HWT_SEED=" .. seed)
	math.randomseed(seed)
	for round = 1, 20 do
		local wheel = round % 2 == 0 and "hashed" or "hierarchical"
		local model, ids, now, timer = {}, {}, 0, nil

		local function fires(value, id, missed)
			local item = model[value]

			equal(item.id, id)
			assert(item.due <= now + 1e-9, "early")
			assert(item.period or missed == 0)
			if item.period then
				item.due = item.due + (missed + 1) * item.period
			else
				model[value] = nil
			end
		end

		timer = virtual { wheel = wheel, ticks_per_wheel = 2 ^ math.random(0, 6), call = fires }
		for step = 1, 2000 do
			local what, value = math.random(10), math.random(step)
			local item, delay = model[value], math.random(0, 400) / 1000

			if what <= 5 then
				local period = math.random(8) == 1 and math.random(1, 50) / 1000 or nil
				local id = period and timer:every(period, step, delay) or timer:schedule(delay, step)

				model[step] = { id = id, due = now + delay, period = period }
				ids[step] = id
			elseif what <= 7 then
				equal(timer:cancel(ids[value]), item ~= nil)
				model[value] = nil
			elseif what == 8 then
				equal(timer:reschedule(ids[value], delay), item and true or nil)
				if item then
					item.due = now + delay
				end
			else
				now = now + math.random(0, 60) / 1000
				timer:advance(now)
				for _, left in pairs(model) do -- late by a tick, and by what rounding takes, is in time
					assert(left.due > now - 0.0011, "late")
				end
			end
		end
		local count = 0
		for value in pairs(model) do
			count = count + 1
			equal(timer:is_pending(ids[value]), true)
		end
		equal(timer:pending(), count)
	end
end

local failed, run = 0, 0
for _, name in ipairs(names) do
	if not arg[2] or name:find(arg[2], 1, true) then
		local ok, message = xpcall(tests[name], debug.traceback)

		run = run + 1
		if not ok then
			failed = failed + 1
			io.stderr:write("# ", (tostring(message):gsub("\n", "\n# ")), "\n")
		end
		print((ok and "ok " or "not ok ") .. run .. " - " .. name)
	end
end
print("1.." .. run)
os.exit(failed == 0 and 0 or 1)
