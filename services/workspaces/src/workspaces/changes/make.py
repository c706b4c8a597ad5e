"""Makes changes of workspaces, instances and attachments.

A change is one transaction: its rows, its events with the next numbers, and what Mnemosyne has to be told because of
it. One advisory lock lets changes run one after the other over all replicas, so numbers have no gap and are in the
order of commits. Nothing slow belongs in a change: fetch registries before it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.catalog import WORKSPACE_CHANGED
from pallas_contracts.errors import Unavailable
from pallas_outbox.outbox import Outbox
from pallas_postgres.engine import transact
from workspaces.live.hub import ALL, WORK, Hub, Live
from workspaces.metrics import Metrics
from workspaces.model import Who
from workspaces.tables import Change, MnemosyneTeam, PallasInstance, RelayPosition

log = logging.getLogger(__name__)

OUTBOX = Outbox(Change, RelayPosition, WORKSPACE_CHANGED, lock=0x70616C6C776C)
WAIT_SECONDS = 5.0
"""How long a change waits for the changes before it in this replica."""


@dataclass(frozen=True, slots=True)
class Event:
    """What has changed. `data` is the new state, without secrets."""

    kind: Literal["workspace", "instance", "assignment"]
    action: str
    id: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def told(self) -> list[Live]:
        """What browsers are told."""
        if self.kind != "assignment":
            return [Live(ALL, self.kind, {"id": self.id})]
        ends = [Live(ALL, kind, {"id": self.data[f"{kind}_id"]}) for kind in ("workspace", "instance")]
        return [*ends, Live(ALL, "agents")]


@dataclass(frozen=True, slots=True)
class Wake:
    """The team of an instance is to be compared with Mnemosyne now.

    This is what the hooks of the auth contract do (section 8): `on_pallas_registered`, `on_pallas_deleted`,
    `on_workspace_pallas_attached`, `on_workspace_pallas_detached`, `on_workspace_deleted`; and `on_pallas_renamed`,
    since the name is mirrored.

    `revokes`: the change takes a right away, so this team is compared before others.
    """

    instance_id: str
    revokes: bool = False


@dataclass(frozen=True, slots=True)
class Decision[R]:
    """The result of a handler: the answer, the events (none if nothing changes), and the teams to wake.

    Browsers are told which workspaces and instances the events are about.
    """

    result: R
    events: tuple[Event, ...] = ()
    wakes: tuple[Wake, ...] = ()


type Decide[R] = Callable[[AsyncSession], Awaitable[Decision[R]]]


class Changes:
    """Makes changes. `committed` is set after each one, so that its events are sent.

    All replicas hear of teams that were woken as `Live(WORK, "teams", {})`.
    """

    def __init__(self, engine: AsyncEngine, metrics: Metrics, committed: asyncio.Event) -> None:
        self._engine = engine
        self._metrics = metrics
        self._committed = committed
        self._one_at_a_time = asyncio.Lock()

    async def make[R](self, who: Who, decide: Decide[R]) -> R:
        """Make the change that `decide` decides, and return its answer. `decide` may run more than once (`transact`).

        Raises:
            Unavailable: Postgres cannot be used right now. It is unknown whether the change was made.
            PallasError: whatever `decide` raises; nothing is changed.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._one_at_a_time.acquire()
        except TimeoutError as error:
            raise Unavailable("too many changes at once; try again", code="busy") from error
        try:
            decision, first = await transact(self._engine, lambda session: _record(session, who, decide))
        finally:
            self._one_at_a_time.release()
        if decision.events:
            self._committed.set()
        for number, event in enumerate(decision.events, start=first):
            self._log_change(who, event, number)
        return decision.result

    def _log_change(self, who: Who, event: Event, number: int) -> None:
        self._metrics.changes.labels(event.kind, event.action).inc()
        facts = {event.kind: event.id, "actor": who.account, "correlation": who.correlation, "number": number}
        log.info(f"{event.kind}_{event.action}", extra=facts)


async def _record[R](session: AsyncSession, who: Who, decide: Decide[R]) -> tuple[Decision[R], int]:
    """A change in its transaction. Returns what was decided, and the number of the first event."""
    await OUTBOX.begin(session)
    decision = await decide(session)
    await session.flush()
    first = 0
    if decision.events:
        first = await OUTBOX.record(session, decision.events, actor=who.account, correlation=who.correlation)
        await Hub.tell_all_in(session, [told for event in decision.events for told in event.told])
    await wake(session, who, *decision.wakes)
    return decision, first


async def lock_rows(
    session: AsyncSession, table: type[PallasInstance | MnemosyneTeam], *which: ColumnElement[bool]
) -> None:
    """Lock these rows in the order of their ids.

    Whoever writes several instances or teams locks them in this order, and instances before teams. Otherwise two
    transactions can wait for each other, and Postgres ends one of them.
    """
    rows = select(table.id).where(*which).order_by(table.id)
    await session.execute(rows.with_for_update(key_share=True))


async def wake(session: AsyncSession, who: Who, *wakes: Wake) -> None:
    """Have these teams compared, with the transaction of the session; reconcilers hear of it when it is committed."""
    if not wakes:
        return
    revoking = {one.instance_id for one in wakes if one.revokes}
    ids = sorted({one.instance_id for one in wakes})
    given = {"correlation": who.correlation, "actor": who.account, "since": func.clock_timestamp()}
    rows = insert(MnemosyneTeam).values([{"id": one, "revokes": one in revoking, **given} for one in ids])
    woken: dict[str, Any] = {
        "since": func.coalesce(MnemosyneTeam.since, rows.excluded.since),
        "revokes": MnemosyneTeam.revokes | rows.excluded.revokes,
        "version": MnemosyneTeam.version + 1,
        "changed": MnemosyneTeam.version + 1,
        "due_at": func.clock_timestamp(),
        "tries": 0,
        "correlation": rows.excluded.correlation,
        "actor": rows.excluded.actor,
    }
    await session.execute(rows.on_conflict_do_update(index_elements=[MnemosyneTeam.id], set_=woken))
    await Hub.tell_in(session, WORK, "teams", {})
