"""Make a call a turn: an id, a message in the agent's queue, and a feed that has missed nothing of it."""

from dataclasses import dataclass

from agent_gateway.model import Call, Refusal
from pallas_bus.connection import Bus
from pallas_bus.turn_queue import submit
from pallas_bus.turn_reader import TurnFeed, TurnFeeds
from pallas_bus.turn_writer import Address
from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.errors import Rejected, Unavailable
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import JsonObject, TurnRequested

RETRY_AFTER_MS = 1000

_NOT_RELAYED = frozenset({"text_delta", "model_called"})
"""A model's text and its cost stay in the log."""

_ONLY_THE_END = _NOT_RELAYED | {"step", "tool_started", "tool_completed", "tool_failed", "tool_progress", "progress"}
"""What a caller who gave no progress token is not told either."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A turn under way: what happens to it comes through `feed`; `position` is its place in the queue's stream."""

    request: TurnRequested
    feed: TurnFeed
    position: int


def make_request(definition: AgentDefinition, tool: ToolDefinition, arguments: JsonObject, call: Call) -> TurnRequested:
    """The turn that a checked call asks for."""
    correlation = arguments.get(tool.correlation) if tool.correlation else None
    return TurnRequested(
        turn_id=new_turn_id(),
        team=definition.team,
        agent=definition.agent,
        tool=tool.name,
        arguments=arguments,
        principal=call.principal,
        correlation=correlation if isinstance(correlation, str) else None,
        client=call.client,
        input_responses=call.input_responses,
        request_state=call.request_state,
        requested_at=utc_now(),
    )


async def submit_turn(bus: Bus, feeds: TurnFeeds, request: TurnRequested) -> Submitted | Refusal:
    """Put the turn into its queue. A refusal means that it is not in there."""
    feed = feeds.open(Address.of(request), skip=_NOT_RELAYED if request.client.progress else _ONLY_THE_END)
    try:
        stored = await submit(bus, request)
    except (Unavailable, Rejected) as error:
        feeds.close(feed)
        return _refusal(error)
    except BaseException:
        feeds.close(feed)
        raise
    return Submitted(request, feed, stored.seq)


def _refusal(error: Unavailable | Rejected) -> Refusal:
    match error.code:
        case "queue_full":
            return Refusal("busy", "Too many turns of this agent are waiting. Try again shortly.", RETRY_AFTER_MS)
        case "too_large":
            return Refusal("invalid_arguments", "The arguments are larger than the platform takes.")
        case _:
            return Refusal("busy", "The platform cannot take turns right now. Try again shortly.", RETRY_AFTER_MS)
