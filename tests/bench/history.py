"""Reading one turn out of a log of a million events: what a resume, a replay and `pallas turns show` wait for."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from tests.bench import stack
from tests.bench.figures import percentile

from pallas_bus.connection import Bus, connect
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY, TURN_CLAIM, TURN_EVENT, TURN_LOG, TURN_OUTCOME, TURN_QUEUE
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Step, TurnClaim, TurnEvents, TurnOutcome
from pallas_turns.claims import TurnRef
from pallas_turns.history.turns import read_turn

EVENTS = 18
"""Messages of a turn between its claim and its outcome."""
_AGENTS = 50
_TURNS_AT_ONCE = 100


def measure(turns: int, reads: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Fill a log with so many turns of 20 messages, and read some of them at random, each as a whole."""
    with stack.broker() as (url, _):
        return asyncio.run(_measure(url, turns, reads, report))


async def _measure(url: str, turns: int, reads: int, report: Callable[[str], None]) -> dict[str, Any]:
    async with connect(url, GATEWAY) as bus:
        await declare(bus, TURN_QUEUE, TURN_LOG)
        report(f"filling a log with {turns * (EVENTS + 2)} messages of {turns} turns")
        refs = [TurnRef("bench", f"agent{number % _AGENTS}", new_turn_id()) for number in range(turns)]
        for start in range(0, turns, _TURNS_AT_ONCE):
            await _fill(bus, refs[start : start + _TURNS_AT_ONCE])
        picked = random.choices(refs, k=reads)
        return {
            "messages": turns * (EVENTS + 2),
            "turns": turns,
            "by_address": _figures([await _by_address(bus, ref) for ref in picked]),
            "by_id": _figures([await _by_id(bus, ref) for ref in picked]),
        }


async def _fill(bus: Bus, refs: list[TurnRef]) -> None:
    """Store some turns. Only the last message is waited for: what was sent before it is stored before it."""
    for ref in refs:
        names = {"turn_id": ref.turn_id, "team": ref.team, "agent": ref.agent}
        claim = TurnClaim(**names, claim=Claimed(attempt=1, worker="w1", tool="run", at=utc_now()))
        await bus.send(ref.on(TURN_CLAIM.template), claim.model_dump_json().encode())
        for number in range(1, EVENTS + 1):
            event = Step(seq=number, at=time.time_ns() // 1_000_000, agent=ref.agent, n=number, kind="llm")
            batch = TurnEvents(**names, attempt=1, events=(event,))
            await bus.send(ref.on(TURN_EVENT.template), batch.model_dump_json().encode())
        ended = utc_now()
        outcome = TurnOutcome(
            turn_id=ref.turn_id,
            team=ref.team,
            agent=ref.agent,
            attempt=1,
            status="completed",
            events=EVENTS,
            requested_at=ended,
            ended_at=ended,
        ).model_dump_json()
        if ref is refs[-1]:
            await bus.put(ref.on(TURN_OUTCOME.template), outcome.encode())
        else:
            await bus.send(ref.on(TURN_OUTCOME.template), outcome.encode())


async def _by_address(bus: Bus, ref: TurnRef) -> float:
    """Seconds to read a turn of which team and agent are known, as when a stream is resumed."""
    began = time.perf_counter()
    count = len([record async for record in read(bus, TURN_LOG.name, ref.everything)])
    took = time.perf_counter() - began
    assert count == EVENTS + 2, count
    return took


async def _by_id(bus: Bus, ref: TurnRef) -> float:
    """Seconds to read a turn of which the id is all that is known, as a person does."""
    began = time.perf_counter()
    turn = await read_turn(bus, ref.turn_id)
    took = time.perf_counter() - began
    assert turn is not None
    assert turn.state == "completed"
    return took


def _figures(seconds: list[float]) -> dict[str, Any]:
    return {
        "reads": len(seconds),
        "p50_ms": 1000 * percentile(seconds, 0.5),
        "p99_ms": 1000 * percentile(seconds, 0.99),
    }
