"""A storm from its first process to the checker's result."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import httpx
from tests.chaos.callers import PATIENCE, Callers
from tests.chaos.checker import Violation, check
from tests.chaos.collect import left_in_queue, read_log
from tests.chaos.effects import Effect, read_effects
from tests.chaos.evidence import CallerView, Evidence, LoggedTurn
from tests.chaos.parts import SECRET, Stage, find_fast_agent
from tests.chaos.programs import Program, program_of
from tests.chaos.recovery import recoveries
from tests.chaos.script import PROGRAM, ScriptedCall, scripted_blows, scripted_calls, scripted_hail, scripted_programs
from tests.chaos.storm import Fallen, Storm
from tests.chaos.witness import Witness, witnessing
from tests.integration.real_parts import until

from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect_when_possible
from pallas_contracts.catalog import CONSTELLATION
from pallas_contracts.keyed import LogKey

TEAM = Path(__file__).parent / "team"
NAME = "chaos"
IN_FLIGHT = 64
_SETTLES_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """What makes a storm: blows fall for at most `seconds`, one `every` so many; calls take `longest` seconds.

    With `pipelines` all calls are programs of 30 nodes, and the storm is a hail.
    """

    seed: int
    turns: int = 500
    seconds: float = 180.0
    every: float = 2.5
    longest: float = 12.0
    pipelines: bool = False


@dataclass(frozen=True)
class Result:
    """The results of a storm."""

    options: Options
    seconds: float
    evidence: Evidence
    fallen: Sequence[Fallen]
    recoveries: dict[str, list[float]]
    violations: Sequence[Violation]


async def run(options: Options, folder: Path, report: Callable[[str], None]) -> Result:
    """Start everything, run the storm while the calls are made, restart everything, and check the evidence."""
    stage = Stage(folder, TEAM, await find_fast_agent())
    try:
        await stage.start()
        report(f"seed {options.seed}: {options.turns} calls")
        access = Access(stage.nats.url)
        async with connect_when_possible(access, "chaos", instance="chaos") as bus, witnessing(bus) as witness:
            return await _storm(options, stage, bus, witness, report)
    finally:
        await asyncio.to_thread(stage.close)


async def _storm(options: Options, stage: Stage, bus: Bus, witness: Witness, report: Callable[[str], None]) -> Result:
    began = time.monotonic()
    storm = Storm(stage, report, options.pipelines)
    make_blows, make_calls = (
        (scripted_hail, scripted_programs)
        if options.pipelines
        else (scripted_blows, partial(scripted_calls, steward=bool(stage.fast_agents)))
    )
    blows = make_blows(Random(f"{options.seed} blows"), options.seconds, options.every)
    raging = asyncio.create_task(storm.rage(blows))
    calls = make_calls(Random(f"{options.seed} calls"), options.turns, options.longest)
    patience = PATIENCE + options.seconds if options.pipelines else PATIENCE
    views = await _make_calls(calls, [gateway.port for gateway in stage.gateways], patience)
    raging.cancel()
    await storm.settle()
    await stage.heal()
    took = time.monotonic() - began
    report(f"all calls are over after {took:.0f} s; waiting for what nobody waits for")
    left = await _settled(bus)
    report(f"the queue is {'not ' if left else ''}empty after {time.monotonic() - began:.0f} s")
    turns, records = await read_log(bus)
    effects = read_effects(stage.effects)
    programs = {call.key: program_of(call) for call in calls if call.agent == PROGRAM}
    by_key = _keys(calls, witness, turns, effects)
    _add_executions(by_key, programs, views, turns, effects)
    evidence = Evidence(
        turns,
        views,
        effects,
        read_effects(stage.calls),
        frozenset(witness.accepted),
        by_key,
        left,
        storm.broker_gone,
        programs,
        frozenset(witness.children),
    )
    return Result(options, took, evidence, storm.fallen, recoveries(storm.fallen, turns, records), check(evidence))


async def _make_calls(calls: Sequence[ScriptedCall], gateways: Sequence[int], patience: float) -> list[CallerView]:
    room = asyncio.Semaphore(IN_FLIGHT)
    async with httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None)) as http:
        callers = Callers(http, gateways, patience)

        async def make(call: ScriptedCall) -> CallerView:
            async with room:
                return await callers.call(call)

        return await asyncio.gather(*(make(call) for call in calls))


async def _settled(bus: Bus) -> list[str]:
    """Wait until the queue is empty, and say what is left in it when that takes too long."""
    left: list[str] = []

    async def look() -> bool:
        nonlocal left
        left = await left_in_queue(bus)
        return not left

    with suppress(TimeoutError):
        await until(look, _SETTLES_WITHIN)
    return left


def _keys(
    calls: Sequence[ScriptedCall], witness: Witness, turns: dict[str, LoggedTurn], effects: Sequence[Effect]
) -> dict[str, list[str]]:
    """The turns of each caller's key, by what was requested, by what the log keeps of the key, and by the effects."""
    by_hash = {turn.conversation: turn.turn for turn in turns.values()}
    found = {call.key: list(witness.by_key.get(call.key, ())) for call in calls}
    for key, known in found.items():
        logged = by_hash.get(LogKey(SECRET).conversation(key))
        if logged is not None and logged not in known:
            known.append(logged)
    for effect in effects:
        known = found.get(effect.caller)
        if known is not None and effect.turn is not None and effect.turn not in known:
            known.append(effect.turn)
    return found


def _add_executions(
    by_key: dict[str, list[str]],
    programs: Mapping[str, Program],
    views: Sequence[CallerView],
    turns: dict[str, LoggedTurn],
    effects: Sequence[Effect],
) -> None:
    """Add the executions that the callers were told of, or that follow from an effect, and the turns of all nodes."""
    answered = {view.key: view.answer.turn for view in views if view.answer is not None and view.answer.turn}
    had = {effect.turn: effect.caller for effect in effects if effect.turn is not None}
    executions = [turn.turn for turn in turns.values() if turn.agent == CONSTELLATION]
    for key, program in programs.items():
        nodes = {f"{key}.{node.place}": node for node in program.nodes}
        known = {*by_key[key], *([answered[key]] if key in answered else [])}
        known |= {it for it in executions for name, node in nodes.items() if name in map(had.get, node.turns(it))}
        by_key[key] = sorted(known)
        for name, node in nodes.items():
            by_key[name] = [turn for execution in known for turn in node.turns(execution) if turn in turns]
