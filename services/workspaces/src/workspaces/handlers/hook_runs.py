"""What Mnemosyne was told."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_postgres.engine import reading
from workspaces.answers import HookRuns, HookRunView
from workspaces.hooks.due import count_waiting
from workspaces.tables import HookRun, PallasInstance


async def list_runs(engine: AsyncEngine, instance_id: str | None, before: int | None, limit: int) -> HookRuns:
    """Runs of hooks, the latest first, of one instance or of all; `due` counts those that wait, in any case."""
    found = select(HookRun).order_by(HookRun.id.desc()).limit(limit + 1)
    if instance_id is not None:
        found = found.where(HookRun.instance_id == instance_id)
    if before is not None:
        found = found.where(HookRun.id < before)
    async with reading(engine) as session:
        rows = (await session.scalars(found)).all()
        due, uncompared = await count_waiting(session), await _uncompared(session)
    shown = rows[:limit]
    runs = tuple(HookRunView.model_validate(row, from_attributes=True) for row in shown)
    return HookRuns(runs=runs, due=due, uncompared=uncompared, next=shown[-1].id if len(rows) > limit else None)


async def _uncompared(session: AsyncSession) -> str | None:
    """How many teams could not be compared at the last try, and the most frequent reason."""
    error = PallasInstance.believed["error"].astext
    failed = PallasInstance.pallas_team_mnemosyne_status == "provisioned", error.is_not(None)
    count, reason = (await session.execute(select(func.count(), func.mode().within_group(error)).where(*failed))).one()
    return f"{reason}. {count} {'team' if count == 1 else 'teams'} could not be compared with it." if count else None
