-- Delete consumers of a group that have nothing pending: deleting one that has loses its entries.
-- KEYS: stream. ARGV: group, milliseconds that it must have been idle, and either a name or '' for all.
local gone = 0
if redis.call('EXISTS', KEYS[1]) == 0 then return gone end
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
  local asked = ARGV[3] == '' or ARGV[3] == consumer['name']
  if asked and consumer['pending'] == 0 and consumer['idle'] >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
    gone = gone + 1
  end
end
return gone
