"""The part of an agent's queue that replays fill. The rest is left to callers, also to those whom replays are for."""

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.queue import queue_state, turns_by_caller
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Unavailable

_SHARE = 4
"""Replays fill this part of `max_queued`."""

_NO_CONSUMER = 10014
"""The broker's code: no worker has hosted the agent yet."""


async def free_places(bus: Bus, definition: AgentDefinition) -> int:
    """How many replays the agent's queue takes now; 0 or less: none.

    Raises:
        Unavailable: the broker does not answer.
    """
    return max(1, definition.limits.max_queued // _SHARE) - await _waiting(bus, definition.team, definition.agent)


async def _waiting(bus: Bus, team: str, agent: str) -> int:
    try:
        return (await queue_state(bus, team, agent)).waiting
    except Unavailable as error:
        if error.facts.get("err_code") != _NO_CONSUMER:
            raise
        return sum((await turns_by_caller(bus, team, agent)).values())
