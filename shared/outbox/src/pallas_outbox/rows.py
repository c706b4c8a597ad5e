"""The columns of the two tables of an outbox. Each service has tables of its own."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column


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
