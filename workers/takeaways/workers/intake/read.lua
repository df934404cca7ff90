-- Read entries for a consumer until there are none, or enough of them, or enough bytes.
-- XREADGROUP can bound the number only, and an entry may have 16 MiB.
-- KEYS: stream. ARGV: group, consumer, start ('>' for new ones, else an id of its own pending ones),
-- most entries, most bytes. Returns {id, fields} pairs; fields is false where the entry was deleted.
local start, entries_left, bytes_left = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found, seen, bytes = {}, 0, 0
while entries_left > 0 and bytes < bytes_left do
  local step = 1
  if seen > 0 then
    -- As many as fit if they are as large as those so far.
    step = math.max(1, math.min(64, entries_left, math.floor((bytes_left - bytes) / (bytes / seen + 1))))
  end
  local reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', step, 'STREAMS', KEYS[1], start)
  local entries = reply and reply[1] and reply[1][2] or {}
  if #entries == 0 then break end
  for _, entry in ipairs(entries) do
    local fields = entry[2] or false
    if fields then
      for _, text in ipairs(fields) do bytes = bytes + #text end
    end
    seen = seen + 1
    found[#found + 1] = {entry[1], fields}
  end
  entries_left = entries_left - #entries
  if start ~= '>' then start = entries[#entries][1] end
end
return found
