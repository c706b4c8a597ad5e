"""Records how telling Mnemosyne has ended, in one transaction: the instance's row, `hook_runs` and `due_hooks`."""

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Superseded
from pallas_postgres.engine import writing
from workspaces.hooks.due import RECONCILE, Due, finish, free, postpone
from workspaces.hooks.settle import Ended
from workspaces.hooks.state import status_values, write_in
from workspaces.live.hub import ALL, WORK, Hub
from workspaces.tables import DueHook, HookRun, PallasInstance, RetiredTeam

log = logging.getLogger(__name__)

KEPT_RUNS = 1000
_STEADY = text("""
    update pallas_instances set believed = given.believed, pushed_workspaces = given.pushed, pushed_at = now()
    from jsonb_to_recordset(:rows) as given(id text, owner text, believed jsonb, pushed text[])
    where pallas_instances.id = given.id
    and exists (select from due_hooks where instance_id = given.id and due_hooks.owner = given.owner)
    returning pallas_instances.id
""")


async def conclude(engine: AsyncEngine, ended: Sequence[Ended]) -> None:
    """Record these ends. One whose lease was lost is due again.

    Raises:
        Unavailable: Postgres cannot be used right now; the leases end by themselves.
    """
    async with writing(engine) as session:
        lost = await _write_rows(session, ended)
        kept = [one for one in ended if one not in lost]
        if runs := [run for one in kept for run in _runs(one)]:
            session.add_all(runs)
            await session.flush()
            oldest = select(HookRun.id).order_by(HookRun.id.desc()).offset(KEPT_RUNS - 1).limit(1).scalar_subquery()
            await session.execute(delete(HookRun).where(HookRun.id < oldest))
            await Hub.tell_in(session, ALL, "hooks", {})
        for one in kept:
            if one.again:
                await postpone(session, one.due)
        await finish(session, [one.due for one in kept if not one.again])
        for one in lost:
            await _again(session, one.due)
    for one in kept:
        _log_end(one)


async def redo(engine: AsyncEngine, due: Due) -> None:
    """Have it done once more by whoever may: what a runner without a lease has done last is unknown."""
    async with writing(engine) as session:
        await _again(session, due)


async def _write_rows(session: AsyncSession, ended: Sequence[Ended]) -> list[Ended]:
    """Write what belongs into the rows of instances. Returns those whose lease was lost."""
    lost = list[Ended]()
    steady = {one.due.instance_id: one for one in ended if one.steady and not one.deleted}
    if steady:
        rows = [
            {
                "id": key,
                "owner": one.due.owner,
                "believed": one.values["believed"],
                "pushed": one.values["pushed_workspaces"],
            }
            for key, one in steady.items()
        ]
        written = await session.scalars(_STEADY, {"rows": json.dumps(rows)})
        found = set(written)
        lost += [steady[key] for key in steady.keys() - found]
        for key in found:
            if steady[key].healed:
                await Hub.tell_in(session, ALL, "instance", {"id": key})
    for one in ended:
        if one.deleted:
            if one.error is None:
                done = update(RetiredTeam).where(RetiredTeam.id == one.due.instance_id)
                await session.execute(done.values(done_at=func.clock_timestamp()))
        elif one.due.instance_id not in steady:
            try:
                await write_in(session, one.due, one.values)
            except Superseded:
                lost.append(one)
    return lost


def _runs(one: Ended) -> list[HookRun]:
    """The runs to be shown. Those of the reconciler only if they changed something or were refused."""
    hooks = [hook for hook in one.due.hooks if hook != RECONCILE]
    if not hooks and (one.steady or one.away):
        return []
    return [
        HookRun(
            hook=hook,
            instance_id=one.due.instance_id,
            instance_name=one.name,
            attempt=one.due.attempt,
            ok=one.error is None,
            error=one.error,
            data=one.data,
            correlation=one.due.who.correlation,
            took_ms=round(1000 * (time.monotonic() - one.started)),
        )
        for hook in sorted(hooks) or [RECONCILE]
    ]


async def _again(session: AsyncSession, due: Due) -> None:
    pending = update(PallasInstance).where(PallasInstance.id == due.instance_id).values(**status_values("pending"))
    await session.execute(pending)
    rows: Any = insert(DueHook).values(
        instance_id=due.instance_id, hooks=list(due.hooks), correlation=due.who.correlation, actor=due.who.account
    )
    await session.execute(
        rows.on_conflict_do_update(
            index_elements=[DueHook.instance_id],
            set_={"version": DueHook.version + 1, "due_at": func.clock_timestamp()},
        )
    )
    await free(session, [due])
    await Hub.tell_in(session, WORK, "hooks", {})


def _log_end(one: Ended) -> None:
    if one.error is not None and (one.again or not one.away):
        extra = {
            "team": one.due.instance_id,
            "team_name": one.name,
            "hooks": one.due.hooks,
            "attempt": one.due.attempt,
            "reason": one.error,
            "correlation": one.due.who.correlation,
        }
        log.warning("Mnemosyne could not be told about a team", extra=extra)
