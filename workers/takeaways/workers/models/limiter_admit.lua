-- May a call to this model begin? Returns the milliseconds to wait, 0 when it was admitted, -1 when it is the probe.
-- KEYS: pause, rounds, probe, flight, bucket
-- ARGV: call id, most calls at once (0: any), most tokens a minute (0: any), tokens of this call,
--       longest that the call takes (ms), wait where a probe runs or all places are taken (ms)
local pause, rounds, probe, flight, bucket = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call, most_calls, most_tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens, lasts_ms, wait_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local left = redis.call('PTTL', pause)
if left > 0 then return left end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

if most_calls > 0 then
  redis.call('ZREMRANGEBYSCORE', flight, '-inf', now)
  if redis.call('ZCARD', flight) >= most_calls then return wait_ms end
end
if most_tokens > 0 then
  -- A bucket that fills in a minute. A call larger than the bucket waits until it is full, and empties it.
  local found = redis.call('HMGET', bucket, 'tokens', 'at')
  local has = most_tokens
  if found[1] then
    has = math.min(most_tokens, tonumber(found[1]) + (now - tonumber(found[2])) * most_tokens / 60000)
  end
  local needed = math.min(tokens, most_tokens)
  if has < needed then return math.ceil((needed - has) * 60000 / most_tokens) end
  if redis.call('EXISTS', rounds) == 1 and redis.call('EXISTS', probe) == 1 then return wait_ms end
  redis.call('HSET', bucket, 'tokens', has - tokens, 'at', now)
  redis.call('PEXPIRE', bucket, 3600000)
end
-- After a pause one call goes first, and the others learn from it.
local is_probe = redis.call('EXISTS', rounds) == 1
if is_probe and not redis.call('SET', probe, call, 'NX', 'PX', lasts_ms) then
  return wait_ms
end
if most_calls > 0 then
  redis.call('ZADD', flight, now + lasts_ms, call)
  redis.call('PEXPIRE', flight, lasts_ms)
end
return is_probe and -1 or 0
