"""A turn that ended has all its events, numbered without a gap, whatever was lost or too large on the way."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.integration.bus.turns import TOOL, attempt_of, numbers, result, step, stored, text
from tests.link import Link, linked
from tests.waiting import eventually, soon

from pallas_bus.transport.connection import Bus, connect
from pallas_bus.transport.errors import Stored
from pallas_bus.transport.reads import Record, read
from pallas_bus.turnlog import writer
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import LogMessage, TextDelta, ToolProgress, TurnEvents, TurnOutcome, TurnRequested

REPORT = ToolProgress(call="2", server="demo", tool="other", progress=1)


@dataclass
class Far:
    """An attempt at a turn whose connection to the broker can be lost."""

    bus: Bus
    link: Link
    request: TurnRequested
    writer: TurnWriter

    async def breaks(self) -> None:
        """Lose the connection, with all that was swallowed."""
        await self.link.cut()
        await eventually(lambda: not self.bus.connected)

    async def is_back(self) -> None:
        await self.link.mend()
        await eventually(lambda: self.bus.connected)

    async def comes_back_and_ends_without_a_gap(self) -> None:
        await self.is_back()
        await self.ends_without_a_gap()

    def outcome(self) -> TurnOutcome:
        return turn_outcome(self.request, events=self.writer.last_event)

    async def ends_without_a_gap(self) -> None:
        """Conclude the turn; the log has every number once."""
        self.writer.emit(result("done"))
        assert await soon(self.writer.conclude(self.outcome()))
        assert await numbers(self.bus, self.writer.ref) == list(range(1, self.writer.last_event + 1))


@asynccontextmanager
async def far_away(url: str, team: str) -> AsyncGenerator[Far]:
    async with linked(url) as link, connect(link.url, "agent-worker", timeout=1.0) as bus:
        request = turn_requested(team)
        yield Far(bus, link, request, await attempt_of(bus, request))


async def test_events_lost_with_the_connection_are_sent_again_before_the_outcome(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with far_away(nats_server.url, team) as far:
        far.writer.emit(step(1))
        await far.bus.client.flush()
        far.link.swallow()
        far.writer.emit(step(2))
        far.writer.emit(text("lost"))
        await soon(far.link.swallowed.wait())
        await far.breaks()
        await far.is_back()
        far.writer.emit(step(3))
        await far.ends_without_a_gap()


async def test_the_last_events_are_not_lost_though_the_broker_is_away_for_long_at_the_end(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with far_away(nats_server.url, team) as far:
        far.writer.emit(step(1))
        await far.bus.client.flush()
        await far.breaks()
        far.writer.emit(step(2))
        with pytest.raises(Unavailable):
            await far.writer.conclude(far.outcome())
        far.writer.emit(step(3))
        await far.comes_back_and_ends_without_a_gap()


async def test_what_is_said_while_a_tool_start_is_confirmed_is_not_taken_for_stored(
    nats_server: NatsServer, turns: Declaring, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await turns(nats_server.url)
    async with far_away(nats_server.url, team) as far:
        put = far.bus.put

        async def put_while_another_tool_reports(
            subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float | None = None
        ) -> Stored:
            stored = await put(subject, payload, headers, timeout)
            far.link.swallow()
            far.writer.emit(REPORT)
            await soon(far.link.swallowed.wait())
            return stored

        monkeypatch.setattr(far.bus, "put", put_while_another_tool_reports)
        await far.writer.tool_starting(TOOL)
        monkeypatch.undo()
        await far.breaks()
        await far.comes_back_and_ends_without_a_gap()


@pytest.mark.parametrize("breaks", [True, False], ids=["the connection breaks", "the connection holds"])
async def test_what_was_said_with_a_tool_start_that_was_given_up_is_not_lost(
    nats_server: NatsServer, turns: Declaring, team: str, breaks: bool
) -> None:
    await turns(nats_server.url)
    async with far_away(nats_server.url, team) as far:
        if breaks:
            far.link.swallow()
        far.writer.emit(text("I shall look"))
        far.writer.emit(step(1))
        starting = asyncio.create_task(far.writer.tool_starting(TOOL))
        await asyncio.sleep(0)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        if breaks:
            await far.breaks()
            await far.comes_back_and_ends_without_a_gap()


async def test_a_turn_reads_the_log_for_its_own_put_that_timed_out_and_not_for_anothers(
    nats_server: NatsServer,
    turns: Declaring,
    team: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await turns(nats_server.url)
    async with far_away(nats_server.url, team) as far:
        readings = list[str]()

        def counted(bus: Bus, stream: str, subject: str, *, timeout: float) -> AsyncGenerator[Record]:
            readings.append(subject)
            return read(bus, stream, subject, timeout=timeout)

        monkeypatch.setattr(writer, "read", counted)
        far.writer.emit(step(1))
        request = turn_requested(team)
        other = await attempt_of(far.bus, request)
        other.emit(text("hello"))
        await eventually(lambda: other.early_content)
        far.link.swallow()
        far.writer.emit(step(2))
        starting = asyncio.create_task(far.writer.tool_starting(TOOL))
        await eventually(lambda: "a tool waits for the broker" in caplog.messages)
        far.link.forward()
        await soon(starting)
        assert await other.conclude(turn_outcome(request, events=1))
        assert readings == []
        await far.ends_without_a_gap()
        assert len(readings) > 0
        assert far.bus.breaks == 0


async def test_an_event_that_is_too_large_says_so_and_leaves_no_gap_though_the_connection_breaks(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with far_away(nats_server.url, team) as far:
        far.writer.emit(step(1))
        far.writer.emit(LogMessage(level="info", data="x" * far.bus.max_payload))
        far.link.swallow()
        await soon(far.link.swallowed.wait())
        await far.breaks()
        await far.comes_back_and_ends_without_a_gap()


async def test_events_of_one_moment_that_are_too_large_together_are_all_told_in_full(
    turns: Declaring, team: str
) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    for word in "abcd":
        writer.emit(text(word * (bus.max_payload // 3)))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    records = await stored(bus, writer.ref)
    batches = [TurnEvents.model_validate_json(each.data) for each in records if ".content." in each.subject]
    said = [event for batch in batches for event in batch.events]
    assert [event.text[0] for event in said if isinstance(event, TextDelta)] == ["a", "b", "c", "d"]
    assert {len(event.text) for event in said if isinstance(event, TextDelta)} == {bus.max_payload // 3}
