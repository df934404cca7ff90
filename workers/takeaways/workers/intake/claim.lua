-- Take over what any consumer left pending for too long; the entries themselves are read afterwards, by bytes.
-- KEYS: stream. ARGV: group, consumer, milliseconds of idleness. Returns how many.
local start, claimed = '0-0', 0
repeat
  local reply =
    redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], start, 'COUNT', 200, 'JUSTID')
  start = reply[1]
  claimed = claimed + #reply[2]
until start == '0-0'
return claimed
