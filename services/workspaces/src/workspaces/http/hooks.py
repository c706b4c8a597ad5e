"""Routes of what Mnemosyne was told: `/hooks`."""

from typing import Annotated

from fastapi import APIRouter, Query

from workspaces.answers import HookRuns
from workspaces.handlers import hook_runs
from workspaces.http.fields import PlainId
from workspaces.http.parts import Parts, Sender


def hooks_router(parts: Parts) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/hooks", tags=["hooks"])

    @router.get("")
    async def list_runs(
        instance_id: PlainId | None = None,
        before: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> HookRuns:
        """Hooks that have run, the latest first."""
        return await hook_runs.list_runs(parts.engine, instance_id, before, limit)

    @router.post("/reconcile", status_code=202)
    async def reconcile(who: Sender) -> None:
        """Compare all teams with Mnemosyne now."""
        await parts.control.reconciler.cycle()

    return router
