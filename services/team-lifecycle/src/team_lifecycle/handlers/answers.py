"""Answers of the API. Only `jwt`, `token` and `secret` are secret; they are shown once."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from team_lifecycle.model import Role


class Answer(BaseModel):
    """A frozen model, made from a row with the same names."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class TeamDetail(Answer):
    """A team (contract, section 7.5). `active_jti` is for diagnosis, and not a credential."""

    id: str
    name: str
    active: bool
    active_jti: str | None
    workspace_ids: list[str]


class CreatedTeam(Answer):
    """A new team, with its JWT."""

    id: str
    name: str
    jwt: str


class RotatedTeam(Answer):
    """The new JWT of a team."""

    jwt: str


class Workspaces(Answer):
    """The workspaces that a team is attached to, sorted."""

    workspace_ids: list[str]


class UserDetail(Answer):
    """A user."""

    name: str
    active: bool
    created_at: datetime


class LibraryDetail(Answer):
    """A library."""

    uid: str
    name: str
    workspace_id: str | None
    created_at: datetime


class MembershipDetail(Answer):
    """A role of a user on a library."""

    library_uid: str
    user_name: str
    role: Role
    created_at: datetime


class TokenDetail(Answer):
    """An opaque token, without its text."""

    id: str
    name: str
    user_name: str
    allowed_libraries: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


class CreatedToken(TokenDetail):
    """A new token with its text, which is not stored."""

    token: str


class KeyDetail(Answer):
    """A signing key, without its secret."""

    kid: str
    purpose: Literal["team", "turn"]
    algorithm: Literal["HS256", "EdDSA"]
    current: bool
    retired_at: datetime | None
    created_at: datetime


class AddedKey(KeyDetail):
    """A new key. `secret` is for Daedalus, and None if the key signs team JWTs."""

    secret: str | None = None


class ChangeDetail(Answer):
    """A line of the audit log."""

    number: int
    kind: str
    action: str
    id: str
    actor: str
    correlation: str
    data: dict[str, Any]
    at: datetime


class Page[T](Answer):
    """A page of a list. `next` is the `after` of the next page, None on the last one."""

    items: list[T]
    next: str | None = None
