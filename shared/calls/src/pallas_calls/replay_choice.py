"""Chooses, of many turns, those that can be executed again, and says why the others cannot.

A turn is chosen once: not if its replay exists, and not if another turn made it, whose own replay would make it again.
Requests are not read here, only whether they are kept; so the choice among thousands of turns takes seconds.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

from pallas_bus.history.replays import find_replays
from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import for_each
from pallas_bus.transport.reads import count_by_subject, read
from pallas_calls.replay_turn import has_model, repeated_tool
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import AGENTS, KEPT_REQUEST, PIPELINES_TEAM, TURN_CLAIM, TURN_EVENT, TURN_LOG
from pallas_contracts.turns import Principal

_AT_ONCE = 32

type Reason = Literal[
    "replayed", "not_ended", "child", "unknown_agent", "unknown_model", "not_allowed", "content_expired"
]


@dataclass
class Choice:
    """`turns` can be executed again, by the agents in `definitions`.

    The turns in `effects` called tools that are not said to be safe to call again. `left_out` has the other turns, and
    `replays` the replays that exist, by the id of the old turn.
    """

    turns: list[TurnHistory] = field(default_factory=list[TurnHistory])
    definitions: dict[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    effects: set[str] = field(default_factory=set[str])
    left_out: dict[Reason, list[TurnHistory]] = field(default_factory=dict[Reason, "list[TurnHistory]"])
    replays: dict[str, TurnHistory] = field(default_factory=dict[str, TurnHistory])

    def by_agent(self) -> dict[str, list[TurnHistory]]:
        """The chosen turns of each agent, as `team.agent`."""
        found: dict[str, list[TurnHistory]] = {}
        for turn in self.turns:
            found.setdefault(key_of(turn), []).append(turn)
        return found


def key_of(turn: TurnHistory) -> str:
    """The turn's agent as `team.agent`."""
    return f"{turn.team}.{turn.agent}"


def caller_of(team: str, caller: Principal | None, operator: Principal) -> Principal:
    """In whose name a turn is executed again: its caller's, or the operator's if that would grant something.

    Pipelines give scopes and modules to a principal, and the log cannot say whether its bearer was revoked since.
    """
    return operator if caller is None or team == PIPELINES_TEAM else caller


async def choose_replays(bus: Bus, turns: Collection[TurnHistory], *, model: str | None, operator: Principal) -> Choice:
    """Choose of `turns` those that can be executed again, with the model `model` if given.

    Raises:
        Unavailable: the broker does not answer.
    """
    definitions = {f"{it.team}.{it.agent}": it for it in (await kv.snapshot(bus, AGENTS)).values()}
    kept = await _kept(bus, {turn.team for turn in turns})
    choice = Choice(definitions=definitions, replays=await find_replays(bus, turns))
    for turn in turns:
        reason = _why_not(choice, turn, model, operator)
        if reason is None and turn.turn_id not in kept:
            reason = "content_expired"
        if reason is None:
            choice.turns.append(turn)
        else:
            choice.left_out.setdefault(reason, []).append(turn)
    choice.effects = await _with_effects(bus, choice)
    return choice


def _why_not(choice: Choice, turn: TurnHistory, model: str | None, operator: Principal) -> Reason | None:
    definition = choice.definitions.get(key_of(turn))
    if turn.turn_id in choice.replays:
        return "replayed"
    if turn.outcome is None:
        return "not_ended"
    if turn.parent is not None:
        return "child"
    if definition is None or definition.unusable is not None:
        return "unknown_agent"
    if model is not None and not has_model(definition):
        return "unknown_model"
    caller = caller_of(turn.team, turn.principal, operator)
    return None if caller == operator or definition.allows(caller) else "not_allowed"


async def _kept(bus: Bus, teams: Iterable[str]) -> set[str]:
    """The turns of these teams whose request is kept."""
    kept = set[str]()
    for team in teams:
        subjects = await count_by_subject(bus, TURN_LOG.name, KEPT_REQUEST.template.filter(team=team))
        kept |= {subject.rpartition(".")[2] for subject in subjects}
    return kept


async def _with_effects(bus: Bus, choice: Choice) -> set[str]:
    """The chosen turns that called tools which are not said to be safe. Only their claims and events are read."""

    async def has_effects(turn: TurnHistory) -> bool:
        definition = choice.definitions[key_of(turn)]
        if definition.retry == "safe" and turn.team != PIPELINES_TEAM:
            return False
        for contract in (TURN_CLAIM, TURN_EVENT):
            async for record in read(bus, TURN_LOG.name, turn.ref.on(contract.template)):
                turn.take(record)
        return repeated_tool(turn, definition) is not None

    found = await for_each(choice.turns, has_effects, at_once=_AT_ONCE)
    return {turn.turn_id for turn, effects in zip(choice.turns, found, strict=True) if effects}
