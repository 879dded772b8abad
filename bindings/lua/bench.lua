-- SPDX-License-Identifier: BSD-2-Clause
-- bench.lua [ROUNDS]: pairs of a schedule and an expiry, with hwt.lua and as callbacks of the FFI; pairs of a schedule
-- and a cancel; memory.  Prints the median of ROUNDS (9), which take turns, and the spread.  Time is virtual.
--
-- The callbacks have the least that a binding could do: one callback for all, its arg an index into a table.

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path
local ffi = require "ffi"
local hwt = require "hwt"
local C = ffi.load "libhwt.so.0"

ffi.cdef [[
typedef void hwt_lua_task(void *entry, uint64_t generation, uintptr_t arg);
int hwt_lua_new(hwt_timer *timer, hwt_lua_task *task, uintptr_t arg, int64_t delay_ns, hwt_timeout *out)
	__asm__("hwt_new_timeout");
int hwt_timer_advance(hwt_timer *timer, int64_t now_ns, int64_t *next_ns);
]]

local PAIRS, PENDING = 200000, 1000
local TICK = 0.001
local fired = 0

local function count()
	fired = fired + 1
end

local function batches()
	local timer = assert(hwt.new { clock = "virtual", tick = TICK })

	return function(now)
		for _ = 1, PENDING do
			timer:schedule(TICK / 2, count)
		end
		timer:advance(now)
	end
end

local function callbacks()
	local config = ffi.new("hwt_config", { size = ffi.sizeof("hwt_config"), tick_duration_ns = TICK * 1e9,
		ticks_per_wheel = 512, max_transfers_per_tick = 100000, flags = 6 })
	local out = ffi.new("hwt_timer *[1]")
	local handles = ffi.new("hwt_timeout[?]", PENDING + 1)
	local values, free, free_count, timer = {}, {}, 0, nil
	local advance = C.hwt_timer_advance
	local task = ffi.cast("hwt_lua_task *", function(_, _, slot)
		slot = tonumber(slot)
		local value = values[slot]
		values[slot] = nil
		free_count = free_count + 1
		free[free_count] = slot
		value()
	end)

	assert(C.hwt_timer_create(out, config) == 0)
	timer = ffi.gc(out[0], C.hwt_timer_destroy)
	for slot = 1, PENDING do
		free[slot] = slot
	end
	free_count = PENDING
	local function run(now) -- a call that calls back must not be compiled
		assert(advance(timer, now * 1e9, nil) == 0)
	end
	jit.off(run)
	return function(now)
		for _ = 1, PENDING do
			local slot = free[free_count]
			free_count = free_count - 1
			values[slot] = count
			assert(C.hwt_lua_new(timer, task, slot, TICK / 2 * 1e9, handles + slot) == 0)
		end
		run(now)
	end
end

local function cancels()
	local timer = assert(hwt.new { clock = "virtual", tick = TICK })

	return function(now)
		for i = 1, PENDING do
			timer:cancel(timer:schedule(10, i))
		end
		fired = fired + PENDING
		timer:advance(now)
	end
end

-- Returns nanoseconds of the processor for each pair.
local function measure(turn, from)
	local before = os.clock()

	fired = 0
	for i = 1, PAIRS / PENDING do
		turn(from + i * 2 * TICK)
	end
	assert(fired == PAIRS)
	return (os.clock() - before) / PAIRS * 1e9
end

local subjects = {
	{ "schedule and expiry, hwt.lua", batches() },
	{ "schedule and expiry, callbacks", callbacks() },
	{ "schedule and cancel, hwt.lua", cancels() },
}

local rounds = tonumber(arg[1]) or 9
for round = 0, rounds do -- the first one warms up
	for _, subject in ipairs(subjects) do
		subject[round + 3] = measure(subject[2], round * PAIRS)
	end
end
for _, subject in ipairs(subjects) do
	local found = { unpack(subject, 4, rounds + 3) }

	table.sort(found)
	subject.median = found[math.floor((rounds + 1) / 2)]
	print(("%-32s %6.0f ns  (%.0f to %.0f)  %5.2f million a second"):format(subject[1], subject.median, found[1],
		found[rounds], 1e3 / subject.median))
end
print(("hwt.lua has %.2f times the rate of callbacks"):format(subjects[2].median / subjects[1].median))

do
	local timer = assert(hwt.new { clock = "virtual", tick = TICK })
	local function rss()
		for line in io.lines("/proc/self/status") do
			if line:find("^VmRSS") then
				return tonumber(line:match("%d+")) * 1024
			end
		end
	end

	collectgarbage()
	local before = rss()
	for i = 1, 1000000 do
		timer:schedule(100 + i % 1000, true)
	end
	timer:advance(1)
	collectgarbage()
	print(("a pending timeout takes %.0f bytes"):format((rss() - before) / 1e6))
end
