"""How long content of a turn is kept that no executor ends."""

from functools import partial

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import CONTENT_SECONDS, Keeping
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import AGENTS
from pallas_contracts.errors import PallasError


async def keeping_of(bus: Bus, ref: TurnRef) -> Keeping:
    """How long content of turns of the agent is kept, as its definition says; else for `CONTENT_SECONDS`.

    The setting of the executors is not known here.

    Raises:
        Unavailable: the broker did not answer.
    """
    try:
        definition = await kv.get(bus, AGENTS, team=ref.team, agent=ref.agent)
    except PallasError as error:
        if error.code != "undecodable":
            raise
        definition = None
    limits = definition.limits if definition is not None else Limits()
    return partial(limits.kept_for, otherwise=CONTENT_SECONDS)
