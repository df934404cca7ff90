-- Ids of entries in their order, for the scripts that this is put before.
local function split(id)
  local dash = string.find(id, '-', 1, true)
  return string.sub(id, 1, dash - 1), string.sub(id, dash + 1)
end

-- Digits compared as text: a sequence number may not fit a Lua number.
local function before(a, b)
  local a_ms, a_seq = split(a)
  local b_ms, b_seq = split(b)
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  if a_ms ~= b_ms then return a_ms < b_ms end
  if #a_seq ~= #b_seq then return #a_seq < #b_seq end
  return a_seq < b_seq
end
