"""Senders of requests, decisions of handlers, and what each role may do (contract, section 4.1)."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pallas_contracts.auth import LookupKey

type Role = Literal["owner", "manager", "reader"]
type Kind = Literal["team", "token", "key", "user", "membership", "library"]

ROLES: tuple[Role, ...] = get_args(Role.__value__)
GRANTS: dict[Role, frozenset[Role]] = {
    "owner": frozenset(ROLES),
    "manager": frozenset({"reader"}),
    "reader": frozenset(),
}
"""Which roles a role may grant and revoke."""

SCOPES: frozenset[Role] = frozenset({"owner", "manager"})
"""Roles that let a user put a library into a token."""


STRANGER = "-"
"""The account of a sender without one."""


@dataclass(frozen=True, slots=True)
class Who:
    """The sender of a request. `user` is whom an admin acts for: then the roles of that user decide."""

    account: str
    correlation: str
    user: str | None = None

    @property
    def actor(self) -> str:
        """The name in events and log lines."""
        return self.account if self.user is None else f"{self.account} for {self.user}"


@dataclass(frozen=True, slots=True)
class Event:
    """What has changed. `data` is the new state, without secrets."""

    kind: Kind
    action: str
    id: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Decision[R]:
    """The result of a handler: the answer, the event (None if nothing changes), and the look-ups.

    `keys` are the look-ups whose records may differ before and after.
    """

    result: R
    event: Event | None = None
    keys: frozenset[LookupKey] = frozenset()


def team_key(team_id: str) -> LookupKey:
    """The look-up of a team."""
    return LookupKey(kind="team", id=team_id)


def token_key(digest: str) -> LookupKey:
    """The look-up of an opaque token."""
    return LookupKey(kind="token", id=digest)


def library_key(uid: str) -> LookupKey:
    """The look-up of a library."""
    return LookupKey(kind="library", id=uid)


def signing_key(kid: str) -> LookupKey:
    """The look-up of a signing key."""
    return LookupKey(kind="key", id=kid)
