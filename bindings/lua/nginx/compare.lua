-- SPDX-License-Identifier: BSD-2-Clause
-- /compare?by=ngx or by=hwt, n=100000: n timers, due within two seconds from a second on; what they cost.

local timers = require "timers"

local args = ngx.req.get_uri_args()
local by, n = args.by or "hwt", tonumber(args.n) or 100000
local fired, late = 0, 0

local function memory()
	for line in io.lines "/proc/self/status" do
		if line:find "^VmRSS" then
			return tonumber(line:match "%d+") / 1024
		end
	end
end

-- Some know when they are due.
local function fire(due)
	fired = fired + 1
	if due then
		ngx.update_time()
		late = math.max(late, ngx.now() - due)
	end
end

local function fire_ngx(premature, due)
	if not premature then
		fire(due)
	end
end

local function schedule(delay, due)
	if by == "ngx" then
		return assert(ngx.timer.at(delay, fire_ngx, due))
	end
	return assert(timers.at(delay, fire, due))
end

collectgarbage()
local memory_before, cpu, handles = memory(), os.clock(), {}
for i = 1, n do
	local delay, due = 1 + i % 2000 / 1000, nil

	if i % 1000 == 0 then
		ngx.update_time()
		due = ngx.now() + delay
	end
	handles[i] = schedule(delay, due)
end
local scheduled = os.clock()
local held = memory() - memory_before

while fired < n do
	ngx.sleep(0.05)
end
local all = os.clock()
ngx.say(("%s: %d timers, %.2f us of processor to schedule, %.2f us to fire: %d a second")
	:format(by, n, (scheduled - cpu) / n * 1e6, (all - scheduled) / n * 1e6, n / (all - cpu)))
ngx.say(("%s: %d bytes each; at most %d ms late"):format(by, held * 1024 * 1024 / n, late * 1000))

if by == "hwt" then
	for i = 1, n do
		handles[i] = schedule(10)
	end
	cpu = os.clock()
	for i = 1, n do
		assert(timers.cancel(handles[i]))
	end
	ngx.say(("hwt: %.2f us to cancel"):format((os.clock() - cpu) / n * 1e6))
end
