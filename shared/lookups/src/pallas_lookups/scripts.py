"""Lua scripts, each of which Redis runs atomically.

An entry is `T` (a tombstone: read Postgres) or `{version}:{record as JSON}`. Each entry has a generation: a random word
that every invalidation and every refresh replaces. A fill must name the current generation. The epoch names the life of
this Redis. It is created when it is missing, so after a restart it differs from what a reader has read before.
"""

EPOCH = """
local function epoch(key, word)
  local known = redis.call('GET', key)
  if known then return known end
  local uptime = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
  known = word .. ':' .. (tonumber(redis.call('TIME')[1]) - uptime)
  redis.call('SET', key, known)
  return known
end
"""

LIVE = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
"""
"""KEYS: life. ARGV: run id of this Redis. Returns the run id that was stored first."""

BEGIN = (
    EPOCH
    + """
local answer = {epoch(KEYS[1], ARGV[1])}
for i = 2, #KEYS do
  answer[i] = redis.call('GET', KEYS[i])
  if not answer[i] then
    answer[i] = ARGV[1]
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  end
end
return answer
"""
)
"""KEYS: epoch, generations. ARGV: a new word, ms of generations that are missing and made here. Returns the epoch and
the generations."""

FILL = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local taken = 0
for i = 2, #KEYS, 2 do
  local generation, version, ttl, value = unpack(ARGV, 2 * i - 2, 2 * i + 1)
  local known = redis.call('GET', KEYS[i])
  local newer = known and known ~= 'T' and tonumber(string.match(known, '^(%d+):')) > tonumber(version)
  if known ~= 'T' and not newer and redis.call('GET', KEYS[i + 1]) == generation then
    redis.call('SET', KEYS[i], version .. ':' .. value, 'PX', ttl)
    taken = taken + 1
  end
end
return taken
"""
"""KEYS: epoch, then entry and generation of each. ARGV: epoch, then generation, version, ms and value of each. Returns
how many entries were stored."""

INVALIDATE = """
for i = 1, #KEYS, 2 do
  redis.call('SET', KEYS[i], 'T', 'PX', ARGV[2])
  redis.call('SET', KEYS[i + 1], ARGV[1], 'PX', ARGV[3])
end
"""
"""KEYS: entry and generation of each. ARGV: the new generation, ms of the tombstones, ms of the generations."""

REFRESH = """
local stood = 1
for i = 1, #KEYS, 2 do
  local version, ttl, value = unpack(ARGV, 3 * (i + 1) / 2 + 2, 3 * (i + 1) / 2 + 4)
  if redis.call('GET', KEYS[i + 1]) == ARGV[1] and redis.call('GET', KEYS[i]) == 'T' then
    redis.call('SET', KEYS[i], version .. ':' .. value, 'PX', ttl)
  else
    redis.call('SET', KEYS[i], 'T', 'PX', ARGV[3])
    stood = 0
  end
  redis.call('SET', KEYS[i + 1], ARGV[2], 'PX', ARGV[4])
end
return stood
"""
"""KEYS: entry and generation of each. ARGV: generation of the invalidation, new one, ms of tombstones and generations,
then version, ms and value of each. An entry that lost its tombstone gets another one. Returns 0 if there was one."""

USE_UP = (
    EPOCH
    + """
local began = tonumber(string.match(epoch(KEYS[1], ARGV[1]), ':(%d+)$'))
if tonumber(ARGV[2]) <= began then return 0 end
if redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[3]) then return 1 end
return 0
"""
)
"""KEYS: epoch, the jti. ARGV: a new word, time of issue, seconds to remember it. Returns 1 the first time."""
