-- A call failed. Lets nobody ask the model for a while where enough agents are in trouble.
-- Returns {milliseconds to wait, 1 when this agent was in trouble already since the model last answered}.
-- KEYS: pause, rounds, troubled
-- ARGV: agent, agents that make it the model's trouble, least wait (ms), first wait (ms), longest wait (ms), why
local pause, rounds, troubled = KEYS[1], KEYS[2], KEYS[3]
local agent, enough = ARGV[1], tonumber(ARGV[2])
local least_ms, first_ms, most_ms, why = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]

local memory_ms = math.max(most_ms * 4, 60000)
local again = 1 - redis.call('SADD', troubled, agent)
redis.call('PEXPIRE', troubled, memory_ms)
if redis.call('SCARD', troubled) < enough then return {0, again} end

local left = math.max(redis.call('PTTL', pause), 0)
local round = tonumber(redis.call('GET', rounds) or '0')
if left == 0 then
  -- Calls that were under way when the pause began say nothing new: one round for all of them.
  round = math.min(round + 1, 30)
  redis.call('SET', rounds, round, 'PX', memory_ms)
end
local wait_ms = math.max(least_ms, math.min(first_ms * 2 ^ (math.max(round, 1) - 1), most_ms))
if wait_ms > left and (left == 0 or least_ms > left) then
  redis.call('SET', pause, why, 'PX', math.floor(wait_ms))
  redis.call('PEXPIRE', rounds, math.floor(wait_ms + memory_ms))
  redis.call('PEXPIRE', troubled, math.floor(wait_ms + memory_ms))
  left = math.floor(wait_ms)
end
return {left, again}
