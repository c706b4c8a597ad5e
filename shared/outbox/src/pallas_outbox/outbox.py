"""Changes with numbers that have no gap and are in the order of commits.

One advisory lock lets the changes of a service run one after the other, over all replicas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import BigInteger, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from pallas_contracts.changes import Changed
from pallas_contracts.contract import Contract, Stream
from pallas_contracts.message import utc_now


class ChangeRow:
    """A change. Numbers have no gap. The table is the audit log and the outbox of events; rows are never deleted."""

    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    actor: Mapped[str]
    correlation: Mapped[str]
    data: Mapped[dict[str, Any]]
    at: Mapped[datetime]


class PositionRow:
    """One row: the number of the last change that the broker has stored."""

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sent: Mapped[int] = mapped_column(BigInteger)


class Event(Protocol):
    """What has changed. `data` is the new state, without secrets."""

    @property
    def kind(self) -> str:
        """The kind of the changed object."""
        ...

    @property
    def action(self) -> str:
        """What was done to it."""
        ...

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """Its new state."""
        ...


@dataclass(frozen=True)
class Outbox[M: Changed[Any]]:
    """The tables of a service's changes, the contract of their events, and the advisory lock of all changes."""

    changes: type[ChangeRow]
    positions: type[PositionRow]
    contract: Contract[M]
    lock: int

    @property
    def stream(self) -> Stream:
        """The stream of the events."""
        assert self.contract.stream is not None, "events of changes are stored"
        return self.contract.stream

    async def begin(self, session: AsyncSession) -> None:
        """Wait for the changes before this one. Call it first in the transaction of a change."""
        await session.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": self.lock})

    async def record(self, session: AsyncSession, events: Sequence[Event], *, actor: str, correlation: str) -> int:
        """Write events with the next numbers. Returns the number of the first one."""
        first = 1 + (await session.scalar(select(func.coalesce(func.max(self.changes.number), 0))) or 0)
        rows = [
            {
                "number": number,
                "kind": event.kind,
                "action": event.action,
                "subject": event.id,
                "actor": actor,
                "correlation": correlation,
                "data": event.data,
                "at": utc_now(),
            }
            for number, event in enumerate(events, start=first)
        ]
        await session.execute(insert(self.changes), rows)
        return first

    def event_of(self, change: ChangeRow) -> M:
        """The event of a change."""
        facts = ("number", "kind", "action", "actor", "correlation", "data", "at")
        return self.contract.message.model_validate(
            {"id": change.subject, **{name: getattr(change, name) for name in facts}}
        )
