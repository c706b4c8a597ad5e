"""Content in a real log is removed when it expires, and not before, whichever gateway removes it."""

from datetime import datetime, timedelta

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.integration.bus.turns import TOOL, attempt_of, result, text
from tests.integration.real_parts import until
from tests.waiting import PATIENCE, eventually, within

from pallas_bus.connection import Bus, connect
from pallas_bus.reads import read
from pallas_contracts.catalog import GATEWAY, KEPT_REQUEST, TURN_CONTENT, TURN_LOG, TURN_OBJECTS
from pallas_contracts.message import utc_now
from pallas_turns import write as writer_module
from pallas_turns.claims import TurnRef, stored_outcome
from pallas_turns.content import OFFLOAD_ABOVE, objects_of
from pallas_turns.expiry import CONSUMER, expire_content
from pallas_turns.write import TurnWriter

POLL_SECONDS = 0.05
"""Seconds between two polls of the tests' gateways."""


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Content may be kept for less time than workers keep it at least."""
    monkeypatch.setattr(writer_module, "LEAST_CONTENT_TTL", 0.0)


async def ended_turn(bus: Bus, team: str, *, keep: float, early: bool = True) -> TurnWriter:
    """An ended turn whose content is kept for `keep` seconds."""
    request = turn_requested(team)
    made = await attempt_of(bus, request)
    writer = TurnWriter(bus, made.ref, 1, made.fence, keep=lambda _status: keep, turn_timeout=600, kept=request)
    if early:
        writer.emit(text("hel"))
        writer.emit(await writer.offload(result("x" * OFFLOAD_ABOVE)))
        await writer.tool_starting(TOOL)
    writer.emit(result("hello"))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    return writer


async def content(bus: Bus, ref: TurnRef) -> int:
    """The number of stored messages and parts of content."""
    filters = [(TURN_LOG, ref.on(contract.template)) for contract in (TURN_CONTENT, KEPT_REQUEST)]
    found = [
        record
        for stream, subject in [*filters, (TURN_OBJECTS, objects_of(ref))]
        async for record in read(bus, stream.name, subject)
    ]
    return len(found)


async def until_content_gone(bus: Bus, ref: TurnRef, within: float = PATIENCE) -> datetime:
    """Wait until the turn has no content. Returns the time."""

    async def look() -> bool:
        return not await content(bus, ref)

    await until(look, within)
    return utc_now()


async def until_outcomes_wait(bus: Bus, count: int) -> None:
    """Wait until `count` outcomes are scheduled for redelivery, and no gateway holds one."""

    async def look() -> bool:
        info = await bus.api(f"CONSUMER.INFO.{TURN_LOG.name}.{CONSUMER}", {})
        return info["num_ack_pending"] == count and not info["num_pending"]

    await until(look)


async def test_content_is_readable_until_it_expires_and_removed_at_once_then(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    bus = await turns(nats_server.url)
    line = bus.spawn(expire_content(bus, every=POLL_SECONDS))
    writer = await ended_turn(bus, team, keep=2)
    outcome = await stored_outcome(bus, writer.ref)
    assert outcome is not None
    assert outcome.content_until is not None
    before = await content(bus, writer.ref)
    assert before >= 4
    while utc_now() < outcome.content_until:
        count = await content(bus, writer.ref)
        assert count == before or utc_now() >= outcome.content_until
    async with within(1.0):
        assert await until_content_gone(bus, writer.ref) >= outcome.content_until
    assert await stored_outcome(bus, writer.ref) == outcome
    line.cancel()


async def test_a_turn_with_only_final_content_needs_no_gateway_to_remove_it(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    bus = await turns(nats_server.url)
    writer = await ended_turn(bus, team, keep=2, early=False)
    outcome = await stored_outcome(bus, writer.ref)
    assert outcome is not None
    assert await content(bus, writer.ref) == 2
    async with within(5.0):
        assert await until_content_gone(bus, writer.ref) >= outcome.ended_at + timedelta(seconds=2)


async def test_content_that_is_kept_long_does_not_delay_the_removal_of_other_content(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    bus = await turns(nats_server.url)
    long = await ended_turn(bus, team, keep=3600)
    short = await ended_turn(bus, team, keep=1)
    line = bus.spawn(expire_content(bus, every=POLL_SECONDS))
    await until_content_gone(bus, short.ref)
    assert await content(bus, long.ref) >= 4
    await until_outcomes_wait(bus, 1)
    line.cancel()


async def test_another_gateway_removes_the_content_that_a_dead_one_was_to_remove(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    bus = await turns(nats_server.url)
    async with connect(nats_server.url, GATEWAY) as first:
        first.spawn(expire_content(first, every=POLL_SECONDS))
        writer = await ended_turn(bus, team, keep=3)
        await until_outcomes_wait(bus, 1)
    assert await content(bus, writer.ref) >= 4
    line = bus.spawn(expire_content(bus, every=POLL_SECONDS))
    await until_content_gone(bus, writer.ref)
    await until_outcomes_wait(bus, 0)
    line.cancel()


async def test_pending_removals_survive_a_crash_of_the_broker(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    bus = await turns(nats_server.url)
    line = bus.spawn(expire_content(bus, every=POLL_SECONDS))
    writer = await ended_turn(bus, team, keep=3)
    outcome = await stored_outcome(bus, writer.ref)
    await until_outcomes_wait(bus, 1)
    breaks = bus.breaks
    nats_server.restart(kill=True)
    await eventually(lambda: bus.breaks > breaks and bus.connected)
    removed = await until_content_gone(bus, writer.ref)
    assert outcome is not None
    assert outcome.content_until is not None
    assert removed >= outcome.content_until
    line.cancel()
