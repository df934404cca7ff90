-- A call ended. With `answered` the trouble is over, unless a pause began while the call was under way.
-- KEYS: pause, rounds, troubled, probe, flight
-- ARGV: call id, 1 when the model answered
if redis.call('GET', KEYS[4]) == ARGV[1] then redis.call('DEL', KEYS[4]) end
redis.call('ZREM', KEYS[5], ARGV[1])
if ARGV[2] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2], KEYS[3]) end
return 0
