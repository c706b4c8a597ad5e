"""Makes changes of workspaces, instances and attachments.

A change is one transaction: its rows, its events with the next numbers, and what Mnemosyne has to be told because of
it. One advisory lock lets changes run one after the other over all replicas, so numbers have no gap and are in the
order of commits. Nothing slow belongs in a change: fetch registries before it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import func, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.catalog import WORKSPACE_CHANGED
from pallas_contracts.errors import Unavailable
from pallas_outbox.outbox import Outbox
from pallas_postgres.engine import writing
from workspaces.live.hub import ALL, WORK, Hub, Live
from workspaces.metrics import Metrics
from workspaces.model import Who
from workspaces.tables import Change, DueHook, RelayPosition

log = logging.getLogger(__name__)

OUTBOX = Outbox(Change, RelayPosition, WORKSPACE_CHANGED, lock=0x70616C6C776C)
WAIT_SECONDS = 5.0
"""How long a change waits for the changes before it in this replica."""

type HookName = Literal[
    "on_pallas_registered",
    "on_pallas_renamed",
    "on_pallas_deleted",
    "on_workspace_pallas_attached",
    "on_workspace_pallas_detached",
    "on_workspace_deleted",
]


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
class Hook:
    """What Mnemosyne is to be told about an instance (auth contract, section 8)."""

    name: HookName
    instance_id: str


@dataclass(frozen=True, slots=True)
class Decision[R]:
    """The result of a handler: the answer, the events (none if nothing changes), and the hooks.

    Browsers are told which workspaces and instances the events are about.
    """

    result: R
    events: tuple[Event, ...] = ()
    hooks: tuple[Hook, ...] = ()


type Decide[R] = Callable[[AsyncSession], Awaitable[Decision[R]]]


class Changes:
    """Makes changes. `committed` is set after each one, so that its events are sent.

    All replicas hear of due hooks as `Live(WORK, "hooks", {})`.
    """

    def __init__(self, engine: AsyncEngine, metrics: Metrics, committed: asyncio.Event) -> None:
        self._engine = engine
        self._metrics = metrics
        self._committed = committed
        self._one_at_a_time = asyncio.Lock()

    async def make[R](self, who: Who, decide: Decide[R]) -> R:
        """Make the change that `decide` decides, and return its answer.

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
            async with writing(self._engine) as session:
                await OUTBOX.begin(session)
                decision = await decide(session)
                await session.flush()
                first = 0
                if decision.events:
                    sender = {"actor": who.account, "correlation": who.correlation}
                    first = await OUTBOX.record(session, decision.events, **sender)
                    await Hub.tell_all_in(session, [told for event in decision.events for told in event.told])
                await make_due(session, who, decision.hooks)
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


async def make_due(session: AsyncSession, who: Who, hooks: Sequence[Hook]) -> None:
    """Make hooks due, with the transaction of the session; their runners hear of it when it is committed."""
    if not hooks:
        return
    named: dict[str, list[str]] = {}
    for hook in sorted(hooks, key=lambda one: one.instance_id):
        named.setdefault(hook.instance_id, []).append(hook.name)
    for instance_id, names in named.items():
        rows = insert(DueHook).values(
            instance_id=instance_id, hooks=sorted(set(names)), correlation=who.correlation, actor=who.account
        )
        await session.execute(
            rows.on_conflict_do_update(
                index_elements=[DueHook.instance_id],
                set_={
                    "hooks": text("array(select distinct unnest(due_hooks.hooks || excluded.hooks) order by 1)"),
                    "version": DueHook.version + 1,
                    "correlation": rows.excluded.correlation,
                    "actor": rows.excluded.actor,
                    "attempt": 0,
                    "due_at": func.now(),
                },
            )
        )
    await Hub.tell_in(session, WORK, "hooks", {})
