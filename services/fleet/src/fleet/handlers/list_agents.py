"""`list_agents`: all agents with what they do."""

from fleet.seeing.fleet import Fleet
from pallas_contracts.agents import JsonObject


async def list_agents(fleet: Fleet) -> JsonObject:
    """All agents by name.

    Raises:
        Unavailable: Coder does not answer.
    """
    seen = await fleet.all()
    agents = [{"name": each.name, "status": each.status, "current_task": each.current_task} for each in seen]
    return {"agents": agents, "total_count": len(agents)}
