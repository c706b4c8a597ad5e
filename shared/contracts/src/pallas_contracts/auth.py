"""The principal of a bearer, the libraries that it may read, and changes of these.

A look-up is a record from team-lifecycle's database with everything that is needed to judge a bearer: a signing key by
its `kid`, a team by its id, an opaque token by the digest of its text, a library by its uid. Redis caches the same
records. A refused bearer is a `Denied` error: its code is one of `AUTH_FAILURES`, its message that of the auth contract
(section 6.4).

A library has an identity beside its uid, a random word: another library may get the uid of one that was deleted. A
library that was made before there were identities has none.
"""

from datetime import datetime
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from pallas_contracts.changes import Changed
from pallas_contracts.message import Message
from pallas_contracts.turns import Principal

type LookupKind = Literal["key", "team", "token", "library"]
type KeyPurpose = Literal["team", "turn"]


class KeyRecord(Message):
    """A signing key, by `kid`. `secret` is encrypted (Fernet) or, for EdDSA, the public key in PEM.

    `purposes` are the kinds of JWT that it may sign. A retired key has none.
    """

    kind: Literal["key"] = "key"
    kid: str
    algorithm: Literal["HS256", "EdDSA"] = "HS256"
    secret: str = Field(repr=False)
    purposes: tuple[KeyPurpose, ...]
    retired: bool = False


class TeamRecord(Message):
    """A team, by its id. `libraries` are the uids of all libraries in the workspaces it is attached to.

    `identities` are those of these libraries, by uid.
    """

    kind: Literal["team"] = "team"
    id: str
    name: str
    active: bool
    active_jti: str | None = None
    libraries: tuple[str, ...] = ()
    identities: dict[str, str] = Field(default_factory=dict[str, str])

    @cached_property
    def principal(self) -> Principal:
        """The team as a caller."""
        return Principal(type="team", id=self.id, name=self.name)


class TokenRecord(Message):
    """An opaque token, by the SHA-256 of its text in hex. `libraries` are the uids of those that it may still read.

    `identities` are those of these libraries, by uid.
    """

    kind: Literal["token"] = "token"
    id: str
    name: str
    user: str
    user_active: bool = True
    revoked: bool = False
    expires_at: datetime | None = None
    libraries: tuple[str, ...] = ()
    identities: dict[str, str] = Field(default_factory=dict[str, str])


class LibraryRecord(Message):
    """A library, by its uid."""

    kind: Literal["library"] = "library"
    uid: str
    identity: str | None = None


type Record = Annotated[KeyRecord | TeamRecord | TokenRecord | LibraryRecord, Field(discriminator="kind")]


class LookupKey(Message):
    """The key of a look-up: `id` is a kid, a team's id, a token's digest or a library's uid."""

    kind: LookupKind
    id: str

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def text(self) -> str:
        """`{kind}:{id}`."""
        return f"{self.kind}:{self.id}"


class Lookups(Message):
    """Ask for several look-ups at once."""

    wanted: tuple[LookupKey, ...]


class LookedUp(Message):
    """The records in the order of the question, None where there is none, all from one snapshot.

    `version` is the number of the last change that the snapshot contains; it only grows.
    """

    version: int
    records: tuple[Record | None, ...]


class ResolveBearer(Message):
    """Ask for the principal of a bearer and its libraries. `uses_up`: a per-turn token is used up by this.

    `identities`: the answer shall have the identities of the libraries. Per-turn tokens do not have them.
    """

    bearer: str = Field(repr=False)
    uses_up: bool = False
    identities: bool = False


class Resolved(Message):
    """The answer. Without `libraries` the caller may read nothing. `identities` are by uid.

    `cache` is the source of the look-ups: Redis (`hit`), Postgres because Redis did not have all of them (`miss`), or
    Postgres because Redis cannot be used (`bypass`).
    """

    principal: Principal
    libraries: tuple[str, ...] = ()
    identities: dict[str, str] = Field(default_factory=dict[str, str])
    cache: Literal["hit", "miss", "bypass"]
    expires_at: datetime | None = None


class LifecycleChanged(Changed[Literal["team", "token", "key", "user", "membership", "library"]]):
    """A change of a team, token, key, user, membership or library. It is the audit record of the change, too.

    `number` counts all changes without a gap. `id` is that of the changed object, `data` its new state without secrets.
    `correlation` is the caller's request id. The `data` of a library has its `identity`.
    """


LONGEST_BEARER = 8192
"""Maximum length of a bearer, in characters."""

AUTH_FAILURES: dict[str, str] = {
    "missing": "Authentication required.",
    "malformed": "Invalid MCP token.",
    "invalid_signature": "Invalid MCP token.",
    "expired": "Token has expired.",
    "invalid_issuer": "Invalid token issuer.",
    "team_not_found": "Invalid MCP token.",
    "team_inactive": "Token has been deactivated.",
    "stale_jti": "Invalid MCP token.",
    "token_not_found": "Invalid MCP token.",
    "token_revoked": "Token has been deactivated.",
    "user_disabled": "User account is disabled.",
    "replay": "Token replay detected.",
}
"""Why a bearer is refused: the reason, which is counted, and the message for its caller."""
