"""Executes a turn again as a new turn: the choice among turns, the plan, and its submission.

A turn is chosen once: not if its replay exists, and not if another turn made it, whose own replay would make it again.
To choose, requests are not read, only whether they are kept; so the choice among thousands of turns takes seconds.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.errors import for_each
from pallas_bus.reads import count_by_subject, read
from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.catalog import AGENTS, KEPT_REQUEST, PIPELINES_TEAM, TURN_CLAIM, TURN_EVENT, TURN_LOG
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.ids import TurnId, new_turn_id, replay_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal, ToolStarted, TurnRequested
from pallas_schemas.schema import Schema
from pallas_turns.claims import TurnRef, request_cancel
from pallas_turns.content import offload_request
from pallas_turns.history.contents import with_content
from pallas_turns.history.replays import find_replays
from pallas_turns.history.turns import TurnHistory, read_turn
from pallas_turns.queue import submit

_MOST_FAULTS = 5

_WITH_MODEL = ("llm", "fast-agent")
"""The kinds of agents whose model can be replaced."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn that has ended, and the request that executes it again."""

    old: TurnHistory
    definition: AgentDefinition
    request: TurnRequested

    @property
    def repeated(self) -> ToolStarted | None:
        """A tool that the turn called and that may have side effects; None if a repetition is safe."""
        return repeated_tool(self.old, self.definition)

    def check(self, *, confirmed: bool) -> None:
        """Check that the user has confirmed a repetition of tools.

        Raises:
            Conflict: a confirmation is needed (`needs_confirmation`).
        """
        tool = self.repeated
        if tool is not None and not confirmed:
            name = f"{self.definition.team}/{self.definition.agent}"
            raise Conflict(
                f"turn {self.old.turn_id} called the tool {tool.server}/{tool.tool}, and {name} is not marked "
                "`retry: safe`: a replay can repeat side effects",
                code="needs_confirmation",
            )


def repeated_tool(old: TurnHistory, definition: AgentDefinition) -> ToolStarted | None:
    """A tool that the turn called and that is not said to be safe to call again, or None.

    The calls of a pipeline are turns of their own, which its journal joins but a replay makes again: they count, though
    an attempt at it may be repeated.
    """
    is_pipeline = old.team == PIPELINES_TEAM
    if definition.retry == "safe" and not is_pipeline:
        return None
    events = (event for attempt in old.attempts.values() for event in attempt.in_order())
    return next((it for it in events if isinstance(it, ToolStarted) and (it.leaf or is_pipeline) and not it.safe), None)


async def find_stored_turn(bus: Bus, turn_id: str, *, most_content: int | None = None) -> TurnHistory:
    """One turn, with everything that the log stores of it (`most_content` as in `read_turn`).

    Raises:
        NotFound: the log has no such turn (`unknown_turn`).
        Rejected: `turn_id` is not a token (`bad_token`).
        Unavailable: the broker does not answer.
    """
    turn = await read_turn(bus, turn_id, most_content=most_content)
    if turn is None:
        raise NotFound(f"the log has no turn {turn_id!r}", code="unknown_turn")
    return turn


def why_no_replay(turn: TurnHistory) -> tuple[str, str] | None:
    """Why the turn cannot be executed again, as code and sentence; None: it can be, as far as the log says."""
    if turn.outcome is None:
        return "not_ended", f"turn {turn.turn_id} is {turn.state}: only a turn that has ended can be replayed"
    if turn.kept is None:
        return "content_expired", f"the request of turn {turn.turn_id} is no longer stored"
    return None


async def plan_replay(bus: Bus, turn_id: str, *, agent: str | None, model: str | None, caller: Principal) -> Plan:
    """Plan the replay of a turn in the name of `caller`, with another agent of its team or another model if given.

    The replay is always a new turn. The first one of a turn has the id that follows from it, so it is found.

    Raises:
        NotFound: the log has no such turn (`unknown_turn`).
        Conflict: it has not ended (`not_ended`), its request is no longer stored (`content_expired`), or does not fit
            the agent's tool (`invalid_arguments`).
        Rejected: no such agent (`unknown_agent`), or it has no model to replace (`unknown_model`).
        Unavailable: the broker does not answer.
    """
    old = await find_stored_turn(bus, turn_id)
    if old.outcome is not None:
        await with_content(bus, old)
    if (refused := why_no_replay(old)) is not None:
        raise Conflict(refused[1], code=refused[0])
    assert old.kept is not None
    definition = await _definition(bus, old.team, agent or old.agent)
    first = not await find_replays(bus, [old])
    new = replay_id(old.turn_id) if first else new_turn_id()
    request = await request_again(old.kept, definition, turn_id=new, model=model, caller=caller, operator=None)
    return Plan(old, definition, request)


async def request_again(
    kept: TurnRequested,
    definition: AgentDefinition,
    *,
    turn_id: TurnId,
    model: str | None,
    caller: Principal,
    operator: Principal | None,
) -> TurnRequested:
    """The request that executes again what a turn was asked, by the agent of `definition`.

    Raises:
        Rejected: the agent has no model to replace (`unknown_model`).
        Conflict: the arguments do not fit the agent's tool (`invalid_arguments`).
    """
    if model is not None and not has_model(definition):
        raise Rejected(f"{definition.agent!r} has no model to replace", code="unknown_model", field="model")
    tool = _tool(definition, kept.tool)
    await _check_arguments(definition, tool, kept.arguments)
    changes: dict[str, Any] = {
        "turn_id": turn_id,
        "agent": definition.agent,
        "tool": tool.name,
        "principal": caller,
        "operator": operator,
        "digest": None,
        "replay_of": kept.turn_id,
        "allowance": None,
        "model": model,
        "requested_at": utc_now(),
    }
    return kept.model_copy(update=changes)


async def submit_replay(bus: Bus, request: TurnRequested) -> int:
    """Submit the turn, with large content offloaded; returns its position in the queue.

    Raises:
        Unavailable: the queue of the agent is full (`busy`), or the broker does not answer: the turn is cancelled.
        Rejected: the request is too large (`too_large`).
    """
    try:
        return (await submit(bus, await offload_request(bus, request))).seq
    except Unavailable as error:
        if error.code == "queue_full":
            raise Unavailable(f"the queue of {request.team}/{request.agent} is full", code="busy") from error
        # The turn may be in the queue. It must not be executed after this error.
        with suppress(PallasError):
            await request_cancel(bus, TurnRef.of(request), "it could not be submitted", request)
        raise Unavailable(f"{error.message}; the turn is cancelled", code=error.code) from error


async def _definition(bus: Bus, team: str, agent: str) -> AgentDefinition:
    definition = await kv.get(bus, AGENTS, team=team, agent=agent)
    if definition is None:
        raise Rejected(f"there is no agent {agent!r} in team {team!r}", code="unknown_agent", field="agent")
    return definition


def has_model(definition: AgentDefinition) -> bool:
    """Whether turns of the agent can be executed with another model."""
    return definition.kind in _WITH_MODEL


def _tool(definition: AgentDefinition, name: str) -> ToolDefinition:
    """The tool of that name, or else the agent's main tool: the tool with the agent's name, or its first."""
    tool = definition.tool(name) or definition.tool(definition.agent) or next(iter(definition.tools), None)
    if tool is None:
        raise Rejected(f"agent {definition.agent!r} has no tool", code="unknown_agent", field="agent")
    return tool


async def _check_arguments(definition: AgentDefinition, tool: ToolDefinition, arguments: dict[str, Any]) -> None:
    """Check arguments against the tool's schema.

    Raises:
        Conflict: they are invalid (`invalid_arguments`). Each line names the field and the rule, not the value.
        Unavailable: they cannot be checked now (`busy`).
    """
    head = f"the arguments of the turn do not fit the tool {tool.name!r}"
    try:
        schema = await Schema.compiled(tool.input_schema, f"{definition.team}/{definition.agent}")
    except Rejected as error:
        sentence = f"the schema of the tool {tool.name!r} cannot be used: {error.message}"
        raise Conflict(sentence, code="invalid_arguments") from error
    if faults := await schema.faults(arguments):
        lines = (f"{head}: {fault}" for fault in faults[:_MOST_FAULTS])
        raise Conflict("\n".join(lines), code="invalid_arguments")


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
