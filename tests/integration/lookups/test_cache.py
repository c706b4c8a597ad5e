"""The cache of look-ups over a real Redis: what it returns, and that it never returns stale records."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.embedded import RedisServer
from tests.integration.stale.unprotected import unprotected
from tests.waiting import soon, within

from pallas_contracts.auth import LibraryRecord, LookupKey, Record, TeamRecord, TokenRecord
from pallas_contracts.errors import Unavailable
from pallas_lookups.cache import CONNECTIONS, PREFIX, TIMEOUT, LookupCache, Snapshot, open_cache

TEAM = LookupKey(kind="team", id="t-1")
TOKEN = LookupKey(kind="token", id="d-1")
LIBRARY = LookupKey(kind="library", id="l-1")


def team(*libraries: str) -> TeamRecord:
    return TeamRecord(id="t-1", name="Kottos", active=True, active_jti="j", libraries=libraries)


async def looked_up(cache: LookupCache, key: LookupKey, truth: Record | None, version: int = 1) -> Snapshot:
    """Look a key up as a reader does, and fill in what is missing."""
    snapshot = await cache.read([key])
    await cache.fill(snapshot, version, dict.fromkeys(snapshot.missing, truth))
    return snapshot


async def test_a_filled_in_record_is_read_back(cache: LookupCache) -> None:
    assert (await looked_up(cache, TEAM, team("a"))).missing == (TEAM,)
    assert (await cache.read([TEAM, TOKEN])).records == {TEAM: team("a")}


async def test_a_missing_row_is_cached_too(cache: LookupCache) -> None:
    await looked_up(cache, TOKEN, None)
    assert (await cache.read([TOKEN])).records == {TOKEN: None}


async def test_a_missing_library_is_not_cached_so_creating_it_needs_no_invalidation(cache: LookupCache) -> None:
    await looked_up(cache, LIBRARY, None)
    assert (await cache.read([LIBRARY])).missing == (LIBRARY,)
    old, new = LibraryRecord(uid="l-1", identity="old"), LibraryRecord(uid="l-1", identity="new")
    await looked_up(cache, LIBRARY, old)
    assert (await cache.read([LIBRARY])).records == {LIBRARY: old}
    invalidated = await cache.invalidate([LIBRARY])
    asked = await cache.read([LIBRARY])
    await cache.refresh(invalidated, 2, {LIBRARY: None})
    # An answer from before the deletion is not cached after it, even if the tombstone is gone.
    await cache.redis.delete(f"{PREFIX}:{LIBRARY.text}")
    await cache.fill(asked, 1, {LIBRARY: old})
    assert (await cache.read([LIBRARY])).missing == (LIBRARY,)
    await looked_up(cache, LIBRARY, new, version=3)
    assert (await cache.read([LIBRARY])).records == {LIBRARY: new}


async def test_a_cache_that_is_cleared_has_no_row_and_takes_none_that_was_read_before(cache: LookupCache) -> None:
    await looked_up(cache, TEAM, team("a"), version=7)
    issued = time.time() + 10  # later than this Redis
    assert await cache.use_up("used", issued, 60)
    asked = await cache.read([TOKEN])
    await cache.clear()
    await cache.fill(asked, 7, {TOKEN: None})
    assert (await cache.read([TEAM, TOKEN])).missing == (TEAM, TOKEN)
    await looked_up(cache, TEAM, team("b"), version=3)  # the restored database is older
    assert (await cache.read([TEAM])).records == {TEAM: team("b")}
    assert not await cache.use_up("used", issued, 60)


async def test_concurrent_reads_are_one_command(cache: LookupCache, redis_server: RedisServer) -> None:
    await looked_up(cache, TEAM, team("a"))

    def commands() -> int:
        return int(redis_server.say("INFO", "commandstats").partition("cmdstat_mget:calls=")[2].partition(",")[0])

    before = commands()
    answers = await asyncio.gather(*(cache.read([TEAM]) for _ in range(100)))
    assert all(answer.records == {TEAM: team("a")} for answer in answers)
    assert commands() == before + 1


async def test_an_invalidated_entry_is_missing_until_it_is_refreshed(cache: LookupCache) -> None:
    await looked_up(cache, TEAM, team("a"))
    invalidated = await cache.invalidate([TEAM])
    assert (await looked_up(cache, TEAM, team("a"))).missing == (TEAM,)
    assert (await cache.read([TEAM])).missing == (TEAM,)
    await cache.refresh(invalidated, 2, {TEAM: team("b")})
    assert (await cache.read([TEAM])).records == {TEAM: team("b")}


async def test_an_answer_from_before_an_invalidation_is_not_filled_in_after_it(cache: LookupCache) -> None:
    snapshot = await cache.read([TEAM])
    await cache.refresh(await cache.invalidate([TEAM]), 2, {})
    assert await cache.fill(snapshot, 1, {TEAM: team("old")}) == 0
    assert (await cache.read([TEAM])).records == {TEAM: None}


async def test_an_answer_from_before_a_restart_of_redis_is_not_filled_in_after_it(
    cache: LookupCache, redis_server: RedisServer
) -> None:
    snapshot = await cache.read([TEAM])
    redis_server.restart(kill=True)
    assert await eventually_answers(lambda: cache.fill(snapshot, 1, {TEAM: team("old")})) == 0
    assert (await cache.read([TEAM])).missing == (TEAM,)


async def eventually_answers[T](ask: Callable[[], Awaitable[T]]) -> T:
    """What is answered once the connections that broke are known to be broken."""
    while True:
        try:
            return await ask()
        except Unavailable:
            continue


async def test_a_late_answer_is_not_cached(cache: LookupCache) -> None:
    snapshot = await cache.read([TEAM])
    late = replace(snapshot, taken_at=snapshot.taken_at - 6.0)
    assert await cache.fill(late, 1, {TEAM: team("a")}) == 0


async def test_an_older_version_never_replaces_a_newer_one(cache: LookupCache) -> None:
    first, second = await cache.read([TEAM]), await cache.read([TEAM])
    assert await cache.fill(first, 5, {TEAM: team("new")}) == 1
    assert await cache.fill(second, 4, {TEAM: team("old")}) == 0
    assert (await cache.read([TEAM])).records == {TEAM: team("new")}


async def test_a_jti_is_used_up_once(cache: LookupCache) -> None:
    now = time.time()
    assert await cache.use_up("j-1", now + 1, 600)
    assert not await cache.use_up("j-1", now + 1, 600)
    assert await cache.use_up("j-2", now + 1, 600)


async def test_a_token_older_than_the_redis_counts_as_used(cache: LookupCache) -> None:
    assert not await cache.use_up("j-3", time.time() - 86_400, 600)


async def test_more_concurrent_commands_than_connections_wait_for_each_other(
    cache: LookupCache, redis_server: RedisServer
) -> None:
    now = time.time()
    used = await asyncio.gather(*(cache.use_up(f"burst-{number}", now + 1, 600) for number in range(300)))
    assert all(used)
    clients = int(redis_server.say("INFO", "clients").partition("connected_clients:")[2].partition("\r\n")[0])
    assert clients <= 2 * CONNECTIONS


async def test_without_redis_every_call_fails_in_time() -> None:
    async with open_cache("redis://127.0.0.1:1") as cache:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: cache.read([TEAM]),
            lambda: cache.invalidate([TEAM]),
            lambda: cache.use_up("j", 0, 1),
        ]
        for call in calls:
            began = time.monotonic()
            with pytest.raises(Unavailable):
                await call()
            assert time.monotonic() - began < 2


async def test_a_hanging_redis_is_waited_for_until_the_timeout_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_lookups.cache.TIMEOUT", TIMEOUT)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_cache(f"redis://127.0.0.1:{port}") as cache, within(3.0):
        with pytest.raises(Unavailable):
            await soon(cache.read([TEAM]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--appendonly", "yes"), "append-only"),
        (("--save", "60", "1"), "snapshots"),
        (("--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"), "evicts"),
        (("--replicaof", "127.0.0.1", "1"), "replica"),
    ],
)
async def test_a_redis_whose_settings_allow_stale_data_is_not_used(
    tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    with RedisServer(tmp_path, *options) as server:
        async with open_cache(server.url) as cache:
            with pytest.raises(Unavailable, match=reason):
                await cache.invalidate([TEAM])


async def refusal(ask: Callable[[], Awaitable[object]]) -> str:
    """Why a Redis that answers is not used, once the connections that broke are known to be broken."""
    while True:
        try:
            await ask()
        except Unavailable as error:
            if error.code != "no_redis":
                return error.message
        else:
            return ""


async def test_a_redis_replaced_by_one_that_allows_stale_data_is_no_longer_used(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as good:
        async with open_cache(good.url) as cache:
            await looked_up(cache, TEAM, team("a"))
            good.stop()
            with RedisServer(tmp_path, "--save", "60", "1", port=good.port):
                assert "snapshots" in await refusal(cache.check)
                assert "snapshots" in await refusal(lambda: cache.invalidate([TEAM]))
                assert "snapshots" in await refusal(lambda: cache.read([TEAM]))


async def test_data_that_redis_kept_over_a_restart_is_not_read(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        async with open_cache(server.url) as cache:
            await looked_up(cache, TEAM, team("old"))
            server.say("SAVE")
            server.restart()
            assert "old data" in await refusal(lambda: cache.read([TEAM]))
            (tmp_path / "dump.rdb").unlink()
            server.restart()
            assert (await eventually_answers(lambda: cache.read([TEAM]))).missing == (TEAM,)


# Every order in which a reader and a changer can meet, with an accident at any point.

type Move = Callable[[], Awaitable[None]]


@dataclass
class Meeting:
    """One reader and one changer of one entry; the truth is `version`."""

    server: RedisServer
    cache: LookupCache
    version: int = 1
    confirmed: bool = False
    _snapshot: Snapshot | None = None
    _answer: int = 0

    async def read(self) -> None:
        self._snapshot = await self.cache.read([TEAM])

    async def ask(self) -> None:
        self._answer = self.version

    async def fill(self) -> None:
        assert self._snapshot is not None
        await self.cache.fill(
            self._snapshot, self._answer, dict.fromkeys(self._snapshot.missing, team(f"v{self._answer}"))
        )

    async def invalidate(self) -> None:
        self._invalidation = await self.cache.invalidate([TEAM])

    async def commit(self) -> None:
        self.version += 1

    async def refresh(self) -> None:
        await self.cache.refresh(self._invalidation, self.version, {TEAM: team(f"v{self.version}")})
        self.confirmed = True

    async def restart(self) -> None:
        self.server.say("FLUSHALL")

    async def expire(self) -> None:
        """The tombstone's time is over, if there is one."""
        name = f"pallas:lookup:{TEAM.kind}:{TEAM.id}"
        if await self.cache.redis.get(name) == "T":
            await self.cache.redis.delete(name)

    async def stale(self) -> bool:
        """Whether a look-up that begins now gets what was before the change that its maker was told of."""
        found = await self.cache.read([TEAM])
        return self.confirmed and TEAM in found.records and found.records[TEAM] != team(f"v{self.version}")


def merged(first: tuple[str, ...], second: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All orders of two sequences that keep each one's own."""
    if not first or not second:
        yield first + second
        return
    for rest in merged(first[1:], second):
        yield first[0], *rest
    for rest in merged(first, second[1:]):
        yield second[0], *rest


READER, CHANGER = ("read", "ask", "fill"), ("invalidate", "commit", "refresh")
MEETINGS = [
    (*order[:place], *accident, *order[place:])
    for order in merged(READER, CHANGER)
    for accident in ((), ("restart",), ("expire",))
    for place in range(len(order) + 1 if accident else 1)
]


async def stale_after(order: tuple[str, ...], server: RedisServer, cache: LookupCache, *, warm: bool) -> bool:
    server.say("FLUSHALL")
    meeting = Meeting(server, cache)
    if warm:
        await looked_up(cache, TEAM, team("v1"))
    for move in order:
        await getattr(meeting, move)()
        if await meeting.stale():
            return True
    return False


@pytest.fixture
async def plain(redis_server: RedisServer) -> AsyncGenerator[LookupCache]:
    with unprotected():
        async with open_cache(redis_server.url) as opened:
            yield opened


async def test_without_protection_some_orders_leave_old_rows_readable(
    plain: LookupCache, redis_server: RedisServer
) -> None:
    found = [order for order in MEETINGS if await stale_after(order, redis_server, plain, warm=False)]
    assert ("read", "ask", "invalidate", "commit", "refresh", "fill") in found


@pytest.mark.parametrize("warm", [False, True])
async def test_with_protection_no_order_leaves_old_rows_readable(
    cache: LookupCache, redis_server: RedisServer, warm: bool
) -> None:
    assert len(MEETINGS) > 200
    assert [order for order in MEETINGS if await stale_after(order, redis_server, cache, warm=warm)] == []


async def test_a_record_with_special_characters_is_read_back_unchanged(cache: LookupCache) -> None:
    record = TokenRecord(id="t", name="n", user="ada", libraries=("x", "ü:'\"{}"))
    await looked_up(cache, TOKEN, record)
    assert (await cache.read([TOKEN])).records == {TOKEN: record}
