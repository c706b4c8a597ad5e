"""Plans the replay of a turn: the new request, and whether it needs a confirmation."""

from dataclasses import dataclass
from typing import Any

from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_cli.refused import Refused
from pallas_cli.turns.answer import with_content
from pallas_cli.turns.listing import find_turn
from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.catalog import AGENTS
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal, ToolStarted, TurnRequested
from pallas_schemas import ToolSchema

OPERATOR = Principal(type="peer", id="pallas-cli")
"""The caller of a replayed turn."""

_MOST_FAULTS = 5


class Unconfirmed(Refused):
    """The command needs a confirmation, because it could repeat side effects."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn that has ended, and the request that executes it again."""

    old: TurnHistory
    definition: AgentDefinition
    request: TurnRequested

    @property
    def repeated(self) -> ToolStarted | None:
        """A tool that the turn called and that may have side effects; None if a repetition is safe."""
        if self.definition.retry == "safe":
            return None
        events = (event for attempt in self.old.attempts.values() for event in attempt.in_order())
        return next((event for event in events if isinstance(event, ToolStarted) and event.leaf), None)

    def check(self, *, confirmed: bool) -> None:
        """Check that the user has confirmed a repetition of tools.

        Raises:
            Unconfirmed: a confirmation is needed.
        """
        tool = self.repeated
        if tool is not None and not confirmed:
            name = f"{self.definition.team}/{self.definition.agent}"
            raise Unconfirmed(
                f"turn {self.old.turn_id} called the tool {tool.server}/{tool.tool}, and {name} is not marked "
                "`retry: safe`: a replay can repeat side effects. Pass --yes to confirm"
            )


async def plan_replay(bus: Bus, turn_id: str, *, agent: str | None, model: str | None) -> Plan:
    """Plan the replay of a turn, with another agent of its team or another model if given.

    Raises:
        Refused: the turn has not ended, its request is no longer stored (`content_expired`), or the agent cannot take
            the request.
    """
    old = await find_turn(bus, turn_id)
    if old.outcome is None:
        raise Refused(f"turn {turn_id} is {old.state}: only a turn that has ended can be replayed")
    await with_content(bus, old)
    if old.kept is None:
        raise Refused(f"content_expired: the request of turn {turn_id} is no longer stored")
    definition = await _definition(bus, old.team, agent or old.agent)
    if model is not None and definition.kind != "llm":
        raise Refused(f"unknown_model: {definition.agent!r} has no model to replace")
    tool = _tool(definition, old.kept.tool)
    check_arguments(tool, old.kept.arguments)
    changes: dict[str, Any] = {
        "turn_id": new_turn_id(),
        "agent": definition.agent,
        "tool": tool.name,
        "principal": OPERATOR,
        "digest": None,
        "replay_of": old.turn_id,
        "model": model,
        "requested_at": utc_now(),
    }
    return Plan(old, definition, old.kept.model_copy(update=changes))


async def _definition(bus: Bus, team: str, agent: str) -> AgentDefinition:
    try:
        definition = await kv.get(bus, AGENTS, team=team, agent=agent)
    except Rejected as error:
        raise Refused(error.message) from error
    if definition is None:
        raise Refused(f"there is no agent {agent!r} in team {team!r}")
    return definition


def _tool(definition: AgentDefinition, name: str) -> ToolDefinition:
    """The tool of that name, or else the agent's main tool: the tool with the agent's name, or its first."""
    tool = definition.tool(name) or definition.tool(definition.agent) or next(iter(definition.tools), None)
    if tool is None:
        raise Refused(f"agent {definition.agent!r} has no tool")
    return tool


def check_arguments(tool: ToolDefinition, arguments: dict[str, Any]) -> None:
    """Check arguments against the tool's schema.

    Raises:
        Refused: they are invalid. Each line names the field and the rule, not the value.
    """
    head = f"the arguments of the turn do not fit the tool {tool.name!r}"
    try:
        faults = ToolSchema(tool.input_schema).faults(arguments)
    except Rejected as error:
        raise Refused(f"the schema of the tool {tool.name!r} cannot be used: {error.message}") from error
    if faults:
        raise Refused(*(f"{head}: {fault}" for fault in faults[:_MOST_FAULTS]))
