-- SPDX-License-Identifier: BSD-2-Clause
--
-- libhwt for LuaJIT: very many timeouts, most of which are cancelled before they fire.  README.md has an example.
--
-- The library calls nothing here.  Expired timeouts come as a batch (HWT_COLLECT), so no call goes from C to Lua, and
-- traces with these functions compile.
--
-- Structure
--
--   Each timeout has a slot.  values[slot] is what was scheduled, nil if the slot is free; handles[slot] names the
--   timeout in the library, whose arg is the number of the slot.  A handle of this file is a number:
--
--       slot + 2^24 * generation       ids[slot] is the one in force, or the next one of a free slot
--
--   A number is used once.  A slot whose generations are used up stays unused.  So a stale handle matches nothing.
--
-- Invariants
--
--   A slot that is not free is pending in the library, or in the batch from batch[at] on.
--   An entry of the batch whose timeout is not that of its slot has been cancelled or moved since: it is left out.

local ffi = require "ffi"

ffi.cdef [[
typedef struct hwt_timer hwt_timer;
typedef struct { void *entry; uint64_t generation; } hwt_timeout;
typedef struct { hwt_timeout timeout; uintptr_t arg; uint64_t missed; } hwt_fired;

typedef struct {
	size_t size;
	int64_t tick_duration_ns;
	uint32_t ticks_per_wheel, max_transfers_per_tick;
	int64_t max_pending_timeouts;
	uint32_t flags, wheel;
	const void *thread_attr;
	const char *thread_name;
	void (*warn)(void *, const char *);
	void *warn_ctx;
	const void *executor;
	uint64_t reserved[8];
	uint32_t task_threads, clock, max_tasks_per_advance;
	void (*on_earlier)(void *);
	void *on_earlier_ctx, *user;
} hwt_config;

typedef struct {
	size_t size;
	uint64_t accepted, completed, cancelled, returned, pending, running;
	uint64_t runs, merged_periods, rescheduled;
	uint64_t refused_limit, refused_stopped, refused_memory, executor_refusals;
	uint64_t ticks, wakeups, transfers, backlog_max;
	uint64_t records, bytes;
	int64_t lateness_max_ns, tick_max_ns;
	uint64_t lateness[32];
	uint64_t tasks_waiting;
	int64_t task_wait_max_ns;
} hwt_stats;

int hwt_timer_create(hwt_timer **timer, const hwt_config *config);
int hwt_timer_destroy(hwt_timer *timer);
int hwt_new_timeout(hwt_timer *timer, void *task, uintptr_t arg, int64_t delay_ns, hwt_timeout *out);
int hwt_new_timeout_at(hwt_timer *timer, void *task, uintptr_t arg, int64_t deadline_ns, hwt_timeout *out);
int hwt_new_periodic(hwt_timer *timer, void *task, uintptr_t arg, int64_t first_ns, int64_t period_ns,
		     hwt_timeout *out);
int hwt_timer_advance_batch(hwt_timer *timer, int64_t now_ns, hwt_fired *out, size_t n, size_t *fired,
			    int64_t *next_ns);
int hwt_timer_next(hwt_timer *timer, int64_t *next_ns);
int hwt_timer_fd(hwt_timer *timer, int *fd);
int hwt_timer_stats(const hwt_timer *timer, hwt_stats *out);
uint64_t hwt_pending_timeouts(const hwt_timer *timer);
int64_t hwt_clock_now(uint32_t clock);
const char *hwt_version(void);
char *strerror(int);
]]

-- A call with a struct by value does not compile to machine code.  Where two registers take both members anyway, they
-- are two arguments.
local flat = ffi.os ~= "Windows" and (ffi.arch == "x64" or ffi.arch == "arm64")

local calls = [[
int hwt_lua_cancel(@) __asm__("hwt_cancel");
int hwt_lua_reschedule(@, int64_t delay_ns) __asm__("hwt_reschedule");
int hwt_lua_left(@, int64_t *left_ns) __asm__("hwt_timeout_left");
]]

ffi.cdef((calls:gsub("@", flat and "void *entry, uint64_t generation" or "hwt_timeout timeout")))

local function load()
	local ok, found = pcall(ffi.load, "libhwt.so.0")
	return ok and found or ffi.load("hwt")
end

local C = load()
local version = ffi.string(C.hwt_version())
if not version:find("^0%.2%.") then
	error("hwt.lua is for libhwt 0.2, and this is " .. version)
end

local ENOENT, ENOMEM, EINVAL = 2, 12, 22
local FINE_TICKS, CALLER_DRIVEN, VIRTUAL_CLOCK, COLLECT = 1, 2, 4, 8
local CLOCKS = { monotonic = 0, boottime = 1, realtime = 2, virtual = 0 }
local WHEELS = { hashed = 0, hierarchical = 1 }
local NEVER = 0x7fffffffffffffffLL
local FARTHEST = 2 ^ 63 - 1024
local GENERATION = 2 ^ 24
local LAST = 2 ^ 53 - GENERATION -- beyond it not each whole number is a number of Lua
local BATCH = 256

local tonumber, type, error = tonumber, type, error
local floor, huge, min, max = math.floor, math.huge, math.min, math.max

-- A time in seconds, in nanoseconds, as a number that fits an int64_t.
local function nanoseconds(seconds, level)
	if type(seconds) ~= "number" or seconds ~= seconds then
		error("a time in seconds expected", level or 3)
	end
	return max(min(floor(seconds * 1e9 + 0.5), FARTHEST), -FARTHEST)
end

local function reason(rc)
	return rc == ENOMEM and "out of memory" or ffi.string(ffi.C.strerror(rc))
end

local Timer = {}
Timer.__index = Timer

local function destroyed()
	error("the timer has been destroyed", 3)
end

-- Slots

local function grow(self)
	local room = self.room * 2
	local handles = ffi.new("hwt_timeout[?]", room)

	ffi.copy(handles, self.handles, self.room * ffi.sizeof("hwt_timeout"))
	self.handles, self.room = handles, room
end

-- Takes a slot; nil if there are no more numbers.
local function take(self)
	local n = self.free_count
	local slot

	if n > 0 then
		self.free_count = n - 1
		return self.free[n]
	end
	slot = self.last + 1
	if slot >= GENERATION then
		return nil
	elseif slot >= self.room then
		grow(self)
	end
	self.last = slot
	self.ids[slot] = slot + GENERATION
	return slot
end

local function release(self, slot)
	local id = self.ids[slot] + GENERATION

	self.values[slot] = nil
	self.periodic[slot] = nil
	self.ids[slot] = id
	if id < LAST then
		local n = self.free_count + 1
		self.free[n] = slot
		self.free_count = n
	end
end

-- Returns the slot of a handle, nil if its timeout has ended.
local function slot_of(self, id)
	local slot

	if id == nil then
		return nil
	elseif type(id) ~= "number" then
		error("a handle expected", 3)
	end
	slot = id % GENERATION
	if self.ids[slot] == id and self.values[slot] ~= nil then
		return slot
	end
end

-- What the library has answered about a new timeout in this slot.  Called last, so that level 2 is the user.
local function scheduled(self, slot, value, rc)
	if rc == 0 then
		self.values[slot] = value
		return self.ids[slot]
	end
	release(self, slot)
	if self.timer == nil then
		error("the timer has been destroyed", 2)
	elseif rc == EINVAL then
		error("a period is at least a tick", 2)
	end
	return nil, rc == ENOMEM and "out of memory" or "too many pending timeouts"
end

local function begin(self, value)
	if value == nil then
		error("something to schedule expected, got nil", 3)
	end
	return take(self)
end

-- Schedules a value to fire once, `delay` seconds from now.  Returns a handle, or nil and a reason.
function Timer:schedule(delay, value)
	local ns, slot = nanoseconds(delay), begin(self, value)

	if not slot then
		return nil, "too many pending timeouts"
	end
	return scheduled(self, slot, value, C.hwt_new_timeout(self.timer, nil, slot, ns, self.handles + slot))
end

-- The same at a time on the timer's clock, in seconds.
function Timer:schedule_at(when, value)
	local ns, slot = nanoseconds(when), begin(self, value)

	if not slot then
		return nil, "too many pending timeouts"
	end
	return scheduled(self, slot, value, C.hwt_new_timeout_at(self.timer, nil, slot, ns, self.handles + slot))
end

-- Schedules a value to fire again and again, first after `first` seconds (a period, if it is left out).
function Timer:every(period, value, first)
	local ns, first_ns, slot = nanoseconds(period), nanoseconds(first or period), begin(self, value)

	if not slot then
		return nil, "too many pending timeouts"
	end
	self.periodic[slot] = period
	return scheduled(self, slot, value,
		C.hwt_new_periodic(self.timer, nil, slot, first_ns, ns, self.handles + slot))
end

-- Returns true if it will not fire any more because of this call; false if it had ended (or for nil).  What is further
-- on in the batch that is being run can be cancelled, too.
function Timer:cancel(id)
	local slot = slot_of(self, id)
	local handle

	if not slot then
		return false
	end
	handle = self.handles[slot]
	if flat then
		C.hwt_lua_cancel(handle.entry, handle.generation)
	else
		C.hwt_lua_cancel(handle)
	end
	release(self, slot)
	return true
end

-- Moves it to `delay` seconds from now; of a periodic one the next run.  Returns true, or nil and a reason.
function Timer:reschedule(id, delay)
	local ns, slot = nanoseconds(delay), slot_of(self, id)
	local handle, rc

	if not slot then
		return nil, "ended"
	end
	handle = self.handles[slot]
	if flat then
		rc = C.hwt_lua_reschedule(handle.entry, handle.generation, ns)
	else
		rc = C.hwt_lua_reschedule(handle, ns)
	end
	if rc == ENOENT then -- it is further on in the batch
		rc = C.hwt_new_timeout(self.timer, nil, slot, ns, handle)
	end
	if rc ~= 0 then
		return nil, reason(rc)
	end
	return true
end

function Timer:is_pending(id)
	return slot_of(self, id) ~= nil
end

local out_ns = ffi.new("int64_t[1]")

-- Returns the seconds to its deadline, or nil and "ended".
function Timer:left(id)
	local slot = slot_of(self, id)
	local handle, rc

	if not slot then
		return nil, "ended"
	end
	handle = self.handles[slot]
	if flat then
		rc = C.hwt_lua_left(handle.entry, handle.generation, out_ns)
	else
		rc = C.hwt_lua_left(handle, out_ns)
	end
	if rc ~= 0 then -- it is further on in the batch
		return 0
	end
	return out_ns[0] == NEVER and huge or tonumber(out_ns[0]) / 1e9
end

-- Runs what is left of the batch.  What a call raises leaves the rest in place, and a call may advance itself.
local function run(self)
	local count = 0

	while self.at < self.count do
		local fired = self.batch[self.at]
		local slot, missed = tonumber(fired.arg), tonumber(fired.missed)
		local handle, timeout, value = self.handles[slot], fired.timeout, self.values[slot]

		self.at = self.at + 1
		if value ~= nil and handle.entry == timeout.entry and handle.generation == timeout.generation then
			local id = self.ids[slot]

			if not self.periodic[slot] then
				release(self, slot)
			end
			count = count + 1
			self.call(value, id, missed)
		end
	end
	return count
end

local out_count = ffi.new("size_t[1]")

-- The answer of the library, relative to now.
local function seconds_to(self, next_ns, now_ns)
	if next_ns == NEVER then
		return huge
	end
	if not self.is_virtual then
		now_ns = C.hwt_clock_now(self.clock)
	end
	return next_ns > now_ns and tonumber(next_ns - now_ns) / 1e9 or 0
end

-- Calls what is due: call(value, handle, missed), with the number of periods that were merged into this run.  `now` is
-- the time in seconds, which a virtual clock needs and for other clocks may be left out.  Returns the seconds to sleep
-- until there is more (0: at once, math.huge: until something is scheduled), and how many have fired.
--
-- An error in a call comes through.  Nothing is lost: the next advance goes on behind it.
function Timer:advance(now)
	local now_ns = now ~= nil and nanoseconds(now) or not self.is_virtual and C.hwt_clock_now(self.clock)
	local fired = run(self)
	local rc

	if not now_ns then
		error("a virtual clock has to be told the time", 2)
	elseif self.is_virtual then
		self.told_ns = now_ns
	end
	repeat
		rc = C.hwt_timer_advance_batch(self.timer, now_ns, self.batch, BATCH, out_count, out_ns)
		if rc ~= 0 then
			if self.timer == nil then
				destroyed()
			end
			error("advance: " .. reason(rc), 2)
		end
		self.at, self.count = 0, tonumber(out_count[0])
		if self.count == 0 then
			return seconds_to(self, out_ns[0], now_ns), fired
		end
		fired = fired + run(self)
	until self.timer == nil -- a call has destroyed it
	return huge, fired
end

-- Returns the seconds until advance has something to do, as advance does, without calling anything.
function Timer:next()
	if self.timer == nil then
		destroyed()
	elseif self.at < self.count or C.hwt_timer_next(self.timer, out_ns) ~= 0 then
		return 0
	end
	return seconds_to(self, out_ns[0], self.told_ns)
end

-- Returns a descriptor that is readable when advance has something to do: for poll and epoll, not to be read.  It
-- belongs to the timer.  nil and a reason where there is none.
function Timer:fd()
	local out = ffi.new("int[1]")
	local rc = C.hwt_timer_fd(self.timer, out)

	if self.timer == nil then
		destroyed()
	elseif rc ~= 0 then
		return nil, self.is_virtual and "a virtual clock has no descriptor" or reason(rc)
	end
	return out[0]
end

-- Returns how many wait.
function Timer:pending()
	if self.timer == nil then
		return 0
	end
	return tonumber(C.hwt_pending_timeouts(self.timer))
end

-- Calls fn(value, handle, left, period) for each that waits, in no order: left as Timer:left says, period nil if it
-- fires once.  false ends it.  fn may schedule, move and cancel; what it schedules may be left out.
function Timer:each(fn)
	for slot = 1, self.last do
		local value = self.values[slot]

		if value ~= nil then
			local id = self.ids[slot]

			if fn(value, id, self:left(id), self.periodic[slot]) == false then
				return
			end
		end
	end
end

-- Returns the numbers of hwt_stats, under their names there.
function Timer:stats()
	local stats = ffi.new("hwt_stats", { size = ffi.sizeof("hwt_stats") })
	local found = { lateness = {} }

	if self.timer == nil then
		destroyed()
	end
	C.hwt_timer_stats(self.timer, stats)
	for name in ([[accepted completed cancelled pending runs merged_periods rescheduled refused_limit refused_memory
		ticks wakeups transfers records bytes lateness_max_ns tick_max_ns]]):gmatch("%S+") do
		found[name] = tonumber(stats[name])
	end
	for i = 0, 31 do
		found.lateness[i] = tonumber(stats.lateness[i])
	end
	return found
end

-- Forgets what is pending and frees the timer, now and not when it is collected.  Again it does nothing.
function Timer:destroy()
	local timer = self.timer

	if timer == nil then
		return
	end
	self.timer = nil
	self.values, self.periodic, self.ids, self.free_count, self.last = {}, {}, {}, 0, 0
	self.at, self.count = 0, 0
	C.hwt_timer_destroy(ffi.gc(timer, nil))
end

-- The default of options.call.
local function call_it(value, id, missed)
	return value(id, missed)
end

local DEFAULTS = { tick = 0.1, ticks_per_wheel = 512, max_pending_timeouts = 0, clock = "monotonic", wheel = "hashed",
	call = call_it }

local function chosen(options)
	local all = {}

	for name, value in pairs(options or {}) do
		if DEFAULTS[name] == nil then
			error("no such option: " .. tostring(name), 3)
		elseif type(value) ~= type(DEFAULTS[name]) then
			error(name .. ": " .. type(DEFAULTS[name]) .. " expected, got " .. type(value), 3)
		end
		all[name] = value
	end
	for name, value in pairs(DEFAULTS) do
		all[name] = all[name] or value
	end
	if not CLOCKS[all.clock] or not WHEELS[all.wheel] then
		error(CLOCKS[all.clock] and "no such wheel: " .. all.wheel or "no such clock: " .. all.clock, 3)
	end
	return all
end

local function config_of(options)
	local config = ffi.new("hwt_config", { size = ffi.sizeof("hwt_config") })
	local is_virtual = options.clock == "virtual"

	config.tick_duration_ns = nanoseconds(options.tick, 4)
	config.ticks_per_wheel = options.ticks_per_wheel
	config.max_transfers_per_tick = 100000
	config.max_pending_timeouts = options.max_pending_timeouts
	config.flags = CALLER_DRIVEN + COLLECT + (is_virtual and VIRTUAL_CLOCK or 0) +
		(options.tick < 0.001 and FINE_TICKS or 0)
	config.wheel = WHEELS[options.wheel]
	config.clock = CLOCKS[options.clock]
	return config
end

local hwt = {}

-- Makes a timer, for one Lua state.  Options, with their defaults: tick = 0.1 (seconds), ticks_per_wheel = 512,
-- max_pending_timeouts = 0 (no limit), wheel = "hashed" or "hierarchical", clock = "monotonic", "boottime", "realtime"
-- or "virtual" (advance tells it, from 0 on), call = function(value, handle, missed), by default value(handle, missed).
-- Returns nil and a reason if the system has no memory or no such clock.
function hwt.new(options)
	local all = chosen(options)
	local out = ffi.new("hwt_timer *[1]")
	local rc = C.hwt_timer_create(out, config_of(all))

	if rc == EINVAL then
		error("an option is out of range", 2)
	elseif rc ~= 0 then
		return nil, reason(rc)
	end
	return setmetatable({
		timer = ffi.gc(out[0], C.hwt_timer_destroy),
		call = all.call, clock = CLOCKS[all.clock], is_virtual = all.clock == "virtual", told_ns = 0,
		values = {}, periodic = {}, ids = {}, handles = ffi.new("hwt_timeout[?]", 64), room = 64, last = 0,
		free = {}, free_count = 0,
		batch = ffi.new("hwt_fired[?]", BATCH), at = 0, count = 0,
	}, Timer)
end

-- The time of a clock in seconds, for schedule_at.
function hwt.now(clock)
	if clock ~= nil and (clock == "virtual" or not CLOCKS[clock]) then
		error("no such clock: " .. tostring(clock), 2)
	end
	return tonumber(C.hwt_clock_now(CLOCKS[clock or "monotonic"])) / 1e9
end

return hwt
