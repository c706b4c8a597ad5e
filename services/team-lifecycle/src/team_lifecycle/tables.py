"""The tables. Their history is in `migrations`."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BigInteger, DateTime, ForeignKey, Text, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pallas_outbox.outbox import ChangeRow, PositionRow


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map: ClassVar = {str: Text(), datetime: DateTime(timezone=True), dict[str, Any]: JSONB()}


def _created() -> Mapped[datetime]:
    return mapped_column(server_default=func.now())


class Team(Base):
    """A team. It is never deleted, only made inactive."""

    __tablename__ = "teams"
    id: Mapped[str] = mapped_column(Uuid(as_uuid=False), primary_key=True)
    name: Mapped[str]
    active: Mapped[bool] = mapped_column(default=True)
    active_jti: Mapped[str | None]
    created_at: Mapped[datetime] = _created()
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class TeamWorkspace(Base):
    """The attachment of a team to a workspace, which need not have libraries."""

    __tablename__ = "team_workspaces"
    team_id: Mapped[str] = mapped_column(
        Uuid(as_uuid=False), ForeignKey("teams.id", ondelete="CASCADE"), primary_key=True
    )
    workspace_id: Mapped[str] = mapped_column(primary_key=True, index=True)
    created_at: Mapped[datetime] = _created()


class User(Base):
    """A user, who may hold roles and tokens."""

    __tablename__ = "users"
    name: Mapped[str] = mapped_column(primary_key=True)
    active: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[datetime] = _created()


class Library(Base):
    """A library. Without a workspace no team reads it. Libraries made before identities existed have none."""

    __tablename__ = "libraries"
    uid: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    workspace_id: Mapped[str | None] = mapped_column(index=True)
    identity: Mapped[str | None]
    created_at: Mapped[datetime] = _created()


class Membership(Base):
    """A role of a user on a library. A user may have several."""

    __tablename__ = "memberships"
    library_uid: Mapped[str] = mapped_column(ForeignKey("libraries.uid", ondelete="CASCADE"), primary_key=True)
    user_name: Mapped[str] = mapped_column(ForeignKey("users.name"), primary_key=True, index=True)
    role: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = _created()


class OpaqueToken(Base):
    """An opaque token. Only its digest is stored."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(Uuid(as_uuid=False), primary_key=True)
    digest: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    user_name: Mapped[str] = mapped_column(ForeignKey("users.name"), index=True)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = _created()


class TokenLibrary(Base):
    """A library that a token may read. The row is deleted when the user may no longer scope the library."""

    __tablename__ = "token_libraries"
    token_id: Mapped[str] = mapped_column(
        Uuid(as_uuid=False), ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True
    )
    library_uid: Mapped[str] = mapped_column(
        ForeignKey("libraries.uid", ondelete="CASCADE"), primary_key=True, index=True
    )


class SigningKey(Base):
    """A signing key. `sealed` is its encrypted secret, `public` the public key of EdDSA in PEM.

    The current key signs team JWTs; there is one.
    """

    __tablename__ = "signing_keys"
    kid: Mapped[str] = mapped_column(primary_key=True)
    purpose: Mapped[str]
    algorithm: Mapped[str]
    sealed: Mapped[str | None]
    public: Mapped[str | None]
    current: Mapped[bool] = mapped_column(default=False)
    retired_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = _created()


class Change(ChangeRow, Base):
    """A change. Numbers have no gap. The table is the audit log and the outbox of events; rows are never deleted."""

    __tablename__ = "changes"


class PendingInvalidation(Base):
    """A change whose look-ups may still be cached as they were before. `keys` are pairs of kind and id."""

    __tablename__ = "unsettled"
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    keys: Mapped[list[list[str]]] = mapped_column(JSONB)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class RelayPosition(PositionRow, Base):
    """One row: the number of the last change that the broker has stored."""

    __tablename__ = "relay_position"
