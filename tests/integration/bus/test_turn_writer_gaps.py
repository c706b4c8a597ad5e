"""An ended turn has all its events, numbered without a gap, whatever messages were lost or too large."""

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

from pallas_bus.connection import Bus, connect
from pallas_bus.errors import RETRYING, Stored
from pallas_bus.reads import Record, read
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import LogMessage, TextDelta, ToolProgress, TurnEvents, TurnOutcome, TurnRequested
from pallas_turns import write as writer
from pallas_turns.write import TurnWriter

REPORT = ToolProgress(call="2", server="demo", tool="other", progress=1)


@dataclass
class AttemptOverLink:
    """An attempt at a turn whose connection to the broker can be lost."""

    bus: Bus
    link: Link
    request: TurnRequested
    writer: TurnWriter

    async def lose_connection(self) -> None:
        """Cut the connection, with all messages that the link holds back."""
        await self.link.cut()
        await eventually(lambda: not self.bus.connected)

    async def until_reconnected(self) -> None:
        await self.link.mend()
        await eventually(lambda: self.bus.connected)

    async def reconnect_and_end_without_a_gap(self) -> None:
        await self.until_reconnected()
        await self.end_without_a_gap()

    def outcome(self) -> TurnOutcome:
        return turn_outcome(self.request, events=self.writer.last_event)

    async def end_without_a_gap(self) -> None:
        """Conclude the turn. Fails unless the log has every number once."""
        self.writer.emit(result("done"))
        assert await soon(self.writer.conclude(self.outcome()))
        assert await numbers(self.bus, self.writer.ref) == list(range(1, self.writer.last_event + 1))


@asynccontextmanager
async def attempt_over_link(url: str, team: str) -> AsyncGenerator[AttemptOverLink]:
    async with linked(url) as link, connect(link.url, "agent-worker", timeout=1.0) as bus:
        request = turn_requested(team)
        yield AttemptOverLink(bus, link, request, await attempt_of(bus, request))


async def test_events_lost_with_the_connection_are_resent_before_the_outcome(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with attempt_over_link(nats_server.url, team) as remote:
        remote.writer.emit(step(1))
        await remote.bus.client.flush()
        remote.link.swallow()
        remote.writer.emit(step(2))
        remote.writer.emit(text("lost"))
        await soon(remote.link.swallowed.wait())
        await remote.lose_connection()
        await remote.until_reconnected()
        remote.writer.emit(step(3))
        await remote.end_without_a_gap()


async def test_the_last_events_survive_a_long_outage_of_the_broker_at_the_end(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with attempt_over_link(nats_server.url, team) as remote:
        remote.writer.emit(step(1))
        await remote.bus.client.flush()
        await remote.lose_connection()
        remote.writer.emit(step(2))
        remote.bus.timeout = 0.2
        with pytest.raises(Unavailable):
            await remote.writer.conclude(remote.outcome())
        remote.bus.timeout = 1.0
        remote.writer.emit(step(3))
        await remote.reconnect_and_end_without_a_gap()


async def test_an_event_emitted_during_a_tool_starts_confirmation_does_not_count_as_stored(
    nats_server: NatsServer, turns: Declaring, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await turns(nats_server.url)
    async with attempt_over_link(nats_server.url, team) as remote:
        put = remote.bus.put

        async def put_while_another_tool_reports(
            subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float | None = None
        ) -> Stored:
            stored = await put(subject, payload, headers, timeout)
            remote.link.swallow()
            remote.writer.emit(REPORT)
            await soon(remote.link.swallowed.wait())
            return stored

        monkeypatch.setattr(remote.bus, "put", put_while_another_tool_reports)
        await remote.writer.tool_starting(TOOL)
        monkeypatch.undo()
        await remote.lose_connection()
        await remote.reconnect_and_end_without_a_gap()


@pytest.mark.parametrize("breaks", [True, False], ids=["the connection breaks", "the connection holds"])
async def test_events_before_a_cancelled_tool_start_are_not_lost(
    nats_server: NatsServer, turns: Declaring, team: str, breaks: bool
) -> None:
    await turns(nats_server.url)
    async with attempt_over_link(nats_server.url, team) as remote:
        if breaks:
            remote.link.swallow()
        remote.writer.emit(text("I shall look"))
        remote.writer.emit(step(1))
        starting = asyncio.create_task(remote.writer.tool_starting(TOOL))
        await asyncio.sleep(0)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        if breaks:
            await remote.lose_connection()
            await remote.reconnect_and_end_without_a_gap()


async def test_only_the_turn_whose_put_timed_out_reads_the_log(
    nats_server: NatsServer,
    turns: Declaring,
    team: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await turns(nats_server.url)
    async with attempt_over_link(nats_server.url, team) as remote:
        readings = list[str]()

        def counted(bus: Bus, stream: str, subject: str, *, timeout: float) -> AsyncGenerator[Record]:
            readings.append(subject)
            return read(bus, stream, subject, timeout=timeout)

        monkeypatch.setattr(writer, "read", counted)
        remote.writer.emit(step(1))
        request = turn_requested(team)
        other = await attempt_of(remote.bus, request)
        other.emit(text("hello"))
        await eventually(lambda: other.early_content)
        remote.link.swallow()
        remote.writer.emit(step(2))
        starting = asyncio.create_task(remote.writer.tool_starting(TOOL))
        await eventually(lambda: RETRYING in caplog.messages)
        remote.link.forward()
        await soon(starting)
        assert await other.conclude(turn_outcome(request, events=1))
        await remote.end_without_a_gap()
        assert len(readings) > 0
        assert all(subject.endswith(remote.request.turn_id) for subject in readings)
        assert remote.bus.breaks == 0


async def test_an_oversized_event_is_replaced_without_a_gap_even_if_the_connection_breaks(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with attempt_over_link(nats_server.url, team) as remote:
        remote.writer.emit(step(1))
        remote.writer.emit(LogMessage(level="info", data="x" * remote.bus.max_payload))
        remote.link.swallow()
        await soon(remote.link.swallowed.wait())
        await remote.lose_connection()
        await remote.reconnect_and_end_without_a_gap()


async def test_concurrent_events_too_large_for_one_message_are_all_stored_in_full(turns: Declaring, team: str) -> None:
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
