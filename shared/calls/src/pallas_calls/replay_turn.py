"""Executes a turn again as a new turn: the plan, and its submission."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pallas_bus.history.contents import with_content
from pallas_bus.history.replays import find_replays
from pallas_bus.history.turns import TurnHistory, read_turn
from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.content import offload_request
from pallas_bus.turnlog.queue import submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.catalog import AGENTS, PIPELINES_TEAM
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.ids import TurnId, new_turn_id, replay_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal, ToolStarted, TurnRequested
from pallas_schemas.schema import Schema

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
