"""Who a bearer is and what it may read, and what changes that.

A look-up is one row of the truth, with everything that is needed to judge a bearer: a signing key by its `kid`, a team
by its id, an opaque token by the digest of its text, a library by its uid. The truth is team-lifecycle's database; its
records are also what Redis keeps. Failures are `Denied` errors: the code is one of `AUTH_FAILURES`, the message the
contract's (section 6.4).

A library has an identity beside its uid, a random word: another library may get the uid of one that was deleted. A
library that was made before there were identities has none.
"""

from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from pallas_contracts.message import Message
from pallas_contracts.turns import Principal

type LookupKind = Literal["key", "team", "token", "library"]
type KeyPurpose = Literal["team", "turn"]


class KeyRecord(Message):
    """A signing key, by `kid`. `secret` is encrypted (Fernet) or, for EdDSA, the public key in PEM.

    `purposes` are the kinds of JWT that it may vouch for. A retired key vouches for none.
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
    """An opaque token, by the SHA-256 of its text in hex. `libraries` are those that it was allowed and still is.

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
    """What is looked up: `id` is a kid, a team's id, a token's digest or a library's uid."""

    kind: LookupKind
    id: str

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def text(self) -> str:
        """Kind and id in one."""
        return f"{self.kind}:{self.id}"


class Lookups(Message):
    """Several rows of the truth are asked for at once."""

    wanted: tuple[LookupKey, ...]


class LookedUp(Message):
    """The rows, in the order in which they were asked for, None where there is none, all as of one moment.

    `version` is the number of the last change that they contain: it only grows.
    """

    version: int
    records: tuple[Record | None, ...]


class ResolveBearer(Message):
    """Whose is this bearer, and what may it read? `uses_up` says that a per-turn token counts as used by this.

    `identities` says that those of the libraries are asked for, too. Per-turn tokens do not have them.
    """

    bearer: str = Field(repr=False)
    uses_up: bool = False
    identities: bool = False


class Resolved(Message):
    """The answer. An empty set is an answer: the caller may read nothing. `identities` are by uid.

    `cache` says where it came from: Redis (`hit`), the truth because Redis had not all of it (`miss`), or the truth
    because Redis cannot be used (`bypass`).
    """

    principal: Principal
    libraries: tuple[str, ...] = ()
    identities: dict[str, str] = Field(default_factory=dict[str, str])
    cache: Literal["hit", "miss", "bypass"]
    expires_at: datetime | None = None


class LifecycleChanged(Message):
    """Something about teams, tokens, keys, users, memberships or libraries changed (audit line and event in one).

    `number` counts all changes without a gap. `id` is what changed, `data` what it is now, without any secret.
    `correlation` is the caller's request id. Of a library, `data` has the `identity`.
    """

    number: int
    kind: Literal["team", "token", "key", "user", "membership", "library"]
    action: str
    id: str
    actor: str
    correlation: str
    data: dict[str, Any] = Field(default_factory=dict[str, Any])
    at: datetime


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
"""Why a bearer is refused: the reason that is counted, and the sentence that its caller is told."""
