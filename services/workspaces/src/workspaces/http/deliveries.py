"""Routes of what Mnemosyne is not known to have: `/deliveries`."""

from typing import Annotated

from fastapi import APIRouter, Query

from workspaces.answers import Deliveries
from workspaces.handlers.deliveries import list_deliveries
from workspaces.http.fields import PlainId
from workspaces.http.parts import Parts, Sender


def deliveries_router(parts: Parts) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/deliveries", tags=["deliveries"])

    @router.get("")
    async def show(instance_id: PlainId | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> Deliveries:
        """Teams that are not known to be in sync with Mnemosyne, with since when, why, and the next try."""
        return await list_deliveries(parts.engine, instance_id, limit)

    @router.post("/reconcile", status_code=202)
    async def reconcile(who: Sender) -> None:
        """Compare all teams with Mnemosyne now, and put what differs."""
        await parts.control.reconciler.cycle()

    return router
