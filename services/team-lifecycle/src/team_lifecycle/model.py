"""The words of the service: who acts, what a change comes to, and what each role may do (contract, section 4.1)."""

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
"""The account of whoever has none."""


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks for a change. `user` is the one an admin acts for: then that user's roles decide."""

    account: str
    correlation: str
    user: str | None = None

    @property
    def actor(self) -> str:
        """As events and log lines name it."""
        return self.account if self.user is None else f"{self.account} for {self.user}"


@dataclass(frozen=True, slots=True)
class Event:
    """What has changed: `data` is what it is now, without any secret."""

    kind: Kind
    action: str
    id: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Decision[R]:
    """What a handler came to: the answer, the event (None when nothing had to change), the look-ups it is about.

    `keys` are those whose records may differ, as they were found before and after.
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
