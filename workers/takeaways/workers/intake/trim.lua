-- Trim a stream below what any group still needs: the oldest pending entry, else the last one delivered.
-- In one call over all groups, because between reading the one and the other an entry may be delivered.
-- KEYS: stream. ARGV: seconds to keep entries all the same. Returns how many were trimmed, and how many are left.
-- `before` is in entry_ids.lua.
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0} end
local lowest
for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #flat, 2 do group[flat[i]] = flat[i + 1] end
  local needed = group['last-delivered-id']
  local pending = redis.call('XPENDING', KEYS[1], group['name'])
  if pending[1] > 0 and before(pending[2], needed) then needed = pending[2] end
  if not lowest or before(needed, lowest) then lowest = needed end
end
if not lowest then return {0, redis.call('XLEN', KEYS[1])} end
local keep_ms = tonumber(ARGV[1]) * 1000
if keep_ms > 0 then
  local oldest = string.format('%.0f-0', math.max(0, tonumber(redis.call('TIME')[1]) * 1000 - keep_ms))
  if before(oldest, lowest) then lowest = oldest end
end
return {redis.call('XTRIM', KEYS[1], 'MINID', lowest), redis.call('XLEN', KEYS[1])}
