-- Delete the acknowledged entries of a stream up to an id, wherever they stand: trimming stops at the oldest
-- pending one. In one call over all groups, because between looking and deleting an entry may be delivered.
-- KEYS: stream. ARGV: the last id, the most to look at, the id to begin after ('-' for the start).
-- Returns how many were deleted, how many are still needed by some group, and the last id looked at ('' at the end).
-- `before` is in entry_ids.lua.
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0, ''} end
local groups = {}
for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #flat, 2 do group[flat[i]] = flat[i + 1] end
  groups[#groups + 1] = group
end
local start = ARGV[3]
if start ~= '-' then start = '(' .. start end
local deleted, needed, last = 0, 0, ''
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], start, ARGV[1], 'COUNT', ARGV[2])) do
  local id = entry[1]
  last = id
  local free = #groups > 0
  for _, group in ipairs(groups) do
    if before(group['last-delivered-id'], id)
      or #redis.call('XPENDING', KEYS[1], group['name'], id, id, 1) > 0 then
      free = false
    end
  end
  if free then
    deleted = deleted + redis.call('XDEL', KEYS[1], id)
  else
    needed = needed + 1
  end
end
return {deleted, needed, last}
