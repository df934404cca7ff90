-- Take over what some consumers left pending, however long ago; the entries are read afterwards, by bytes.
-- KEYS: stream. ARGV: group, consumer, and the consumers whose processes are gone. Returns how many.
local claimed = 0
for i = 3, #ARGV do
  repeat
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 200, ARGV[i])
    if #pending > 0 then
      local claim = {'XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0}
      for _, entry in ipairs(pending) do claim[#claim + 1] = entry[1] end
      claim[#claim + 1] = 'JUSTID'
      redis.call(unpack(claim))
      claimed = claimed + #pending
    end
  until #pending < 200
end
return claimed
