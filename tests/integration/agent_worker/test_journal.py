"""The journal as it is written to the log, and read from there by the next attempt."""

from tests.builders import agent_definition, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import attempt_of
from tests.link import linked
from tests.waiting import soon

from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY, OBJECT_PART, TURN_EVENT, TURN_LOG, TURN_OBJECTS, TURN_QUEUE, WORKERS
from pallas_contracts.turns import Answered, ToolStarted
from pallas_turns.attempts import Claimant, Conclude, claim_turn
from pallas_turns.content import MAX_OFFLOADED, OFFLOAD_ABOVE
from pallas_turns.journal import LoggedTurn


def answer(call: str, size: int = 2) -> Answered:
    return Answered(call=call, basis="b", answer=f'"{"x" * (size - 2)}"')


def tool(call: str) -> ToolStarted:
    return ToolStarted(call=call, server="argos", tool="search")


async def the_log(bus: Connecting, url: str | None = None) -> Bus:
    connection = await bus(GATEWAY, url=url)
    await declare(connection, TURN_QUEUE, TURN_LOG, TURN_OBJECTS)
    return connection


async def test_what_a_superseded_attempt_adds_after_the_next_claim_does_not_count(bus: Connecting, team: str) -> None:
    log, request = await the_log(bus), turn_requested(team)
    first = await attempt_of(log, request)
    await first.answered(answer("1"))
    await first.tool_starting(tool("1.1"))
    second = await attempt_of(log, request, 2, after=first.fence)
    await first.answered(answer("1.1"))
    await second.answered(answer("2"))
    await second.tool_starting(tool("2.1"))
    await log.client.flush()
    journal = await LoggedTurn(log, second.ref).journal(2)
    assert (list(journal.answers), list(journal.unknown), journal.lost) == (["1"], ["1.1"], 1)
    journal = await LoggedTurn(log, second.ref).journal(3)
    assert (list(journal.answers), list(journal.unknown), journal.lost) == (["1", "2"], ["1.1", "2.1"], 2)
    assert 0 < journal.elapsed < 30


async def test_a_turn_whose_events_cannot_be_decoded_ends_and_says_so(bus: Connecting, team: str) -> None:
    log, request = await the_log(bus), turn_requested(team)
    await declare(log, WORKERS)
    first = await attempt_of(log, request)
    await log.put(first.ref.on(TURN_EVENT.template), b"{}")
    verdict = await claim_turn(Claimant(log, "w2", request), agent_definition(team))
    assert isinstance(verdict, Conclude)
    assert verdict.why is not None
    assert (verdict.why.code, verdict.used_up) == ("worker_lost", False)
    assert "cannot be read" in verdict.why.message


async def test_a_big_answer_is_offloaded_and_the_journal_is_cut_where_one_cannot_be_kept_or_read(
    bus: Connecting, team: str
) -> None:
    log, request = await the_log(bus), turn_requested(team)
    first = await attempt_of(log, request)
    big = answer("1", 3 * OFFLOAD_ABOVE)
    assert await first.answered(big)
    assert await first.answered(answer("1.1"))
    assert not await first.answered(answer("2", MAX_OFFLOADED + 1))
    assert await first.answered(answer("3"))
    await first.hand_back()
    journal = await LoggedTurn(log, first.ref).journal(2)
    assert [it.answer for it in journal.answers.values()] == [big.answer, answer("1.1").answer]
    assert journal.lost == 0
    names = {"team": team, "agent": request.agent, "turn": request.turn_id}
    await log.api(f"STREAM.PURGE.{TURN_OBJECTS.name}", {"filter": OBJECT_PART.template.filter(**names)})
    assert (await LoggedTurn(log, first.ref).journal(2)).answers == {}


async def test_answers_that_a_broken_connection_lost_are_stored_before_the_next_tool_starts(
    bus: Connecting, team: str, nats_server: NatsServer
) -> None:
    await the_log(bus, nats_server.url)
    async with linked(nats_server.url) as link:
        log = await bus(GATEWAY, url=link.url)
        writer = await attempt_of(log, turn_requested(team))
        link.swallow()
        await writer.answered(answer("1"))
        await soon(link.swallowed.wait())
        await link.cut()
        await link.mend()
        await writer.tool_starting(tool("1.1"))
        journal = await LoggedTurn(log, writer.ref).journal(2)
    assert (list(journal.answers), list(journal.unknown), journal.behind_gap) == (["1"], ["1.1"], False)
