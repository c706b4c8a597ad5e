"""Routes of agents: `/agents/status`."""

from fastapi import APIRouter

from workspaces.answers import AgentStatuses
from workspaces.http.parts import Parts


def agents_router(parts: Parts) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/agents", tags=["agents"])
    health = parts.agents.health

    @router.get("/status")
    async def show_status() -> AgentStatuses:
        """The cached health of all agents of registered instances (interface contract, section 4)."""
        return AgentStatuses(agents=tuple(health.statuses()), interval=health.interval)

    return router
