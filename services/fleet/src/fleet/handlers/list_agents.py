"""`list_agents`: all agents of a caller with what they do."""

from fleet.seeing.fleet import Fleet
from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import Principal


async def list_agents(fleet: Fleet, caller: Principal) -> JsonObject:
    """The agents of a caller by name.

    Raises:
        Unavailable: Coder does not answer.
    """
    seen = await fleet.of(caller)
    agents = [{"name": each.name, "status": each.status, "current_task": each.current_task} for each in seen]
    return {"agents": agents, "total_count": len(agents)}
