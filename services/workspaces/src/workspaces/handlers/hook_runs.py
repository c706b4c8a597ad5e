"""What Mnemosyne was told."""

from sqlalchemy import select

from pallas_postgres.engine import reading
from workspaces.answers import HookRuns, HookRunView
from workspaces.handlers.parts import Control
from workspaces.hooks.due import count_waiting
from workspaces.tables import HookRun


async def list_runs(control: Control, instance_id: str | None, before: int | None, limit: int) -> HookRuns:
    """Runs of hooks, the latest first, of one instance or of all; `due` counts those that wait, in any case."""
    found = select(HookRun).order_by(HookRun.id.desc()).limit(limit + 1)
    if instance_id is not None:
        found = found.where(HookRun.instance_id == instance_id)
    if before is not None:
        found = found.where(HookRun.id < before)
    async with reading(control.engine) as session:
        rows = (await session.scalars(found)).all()
        due = await count_waiting(session)
    shown = rows[:limit]
    runs = tuple(HookRunView.model_validate(row, from_attributes=True) for row in shown)
    return HookRuns(runs=runs, due=due, next=shown[-1].id if len(rows) > limit else None)
