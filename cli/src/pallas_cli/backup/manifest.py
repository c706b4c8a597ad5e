"""What a backup has: one file for each stream and database, and the manifest, which is written last.

A folder without a manifest is no backup: it is one that is being made, or that was interrupted.
"""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from pallas_bus.transport.streams import stream_name
from pallas_contracts.catalog import BUCKETS, DATABASES, STREAMS
from pallas_contracts.contract import Saved
from pallas_contracts.ids import Token, check_token

FORMAT = 1
MANIFEST = "manifest.json"
CODES = "manifest.hmac"
"""The file beside the manifest by which a change of it is found."""

type Kind = Literal["stream", "database"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Part(_Frozen):
    """One stream or database. `size` and `sha256` are those of its encrypted file, `plain` is its size before.

    `stream` is the configuration and state of a stream, as the broker takes them for a restore.
    """

    kind: Kind
    name: Annotated[str, AfterValidator(lambda name: check_token(name.lower(), "name") and name)]
    saved_at: AwareDatetime
    size: int
    sha256: str
    plain: int
    stream: dict[str, Any] | None = None

    @property
    def messages(self) -> int | None:
        """How many messages a stream had."""
        return int(self.stream["state"]["messages"]) if self.stream is not None else None


class Manifest(_Frozen):
    """A backup. `began_at` is before everything in it. `absent` are streams that the installation did not have.

    `keys` are fingerprints of the keys without which parts of it cannot be used, by the name of their secret; None
    where the key was not at hand.
    """

    format: Literal[1] = FORMAT
    id: Token
    release: str
    began_at: AwareDatetime
    ended_at: AwareDatetime
    recipients: tuple[str, ...]
    parts: tuple[Part, ...]
    absent: tuple[str, ...] = ()
    keys: dict[str, str | None] = Field(default_factory=dict[str, str | None])

    @property
    def size(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(part.size for part in self.parts)


def new_id(now: datetime) -> str:
    """The id of a backup. Ids are in the order of time."""
    return f"{now.astimezone(UTC):%Y%m%dt%H%M%Sz}-{secrets.token_hex(2)}"


def path_of(backup: str, kind: Kind, name: str) -> str:
    """Where a part is in the store."""
    return f"{backup}/{kind}-{name}.age"


def parts_in_order() -> Iterator[tuple[Kind, str]]:
    """Kind and name of all that a backup has, in the order in which it is saved (`Saved`, docs/adr/0022)."""
    kept = sorted((thing for thing in (*STREAMS, *BUCKETS) if thing.saved is not Saved.NEVER), key=lambda it: it.saved)
    for thing in kept:
        if thing.saved is Saved.CHANGES:
            yield "stream", stream_name(thing)
    for name in DATABASES.values():
        yield "database", name
    for thing in kept:
        if thing.saved is not Saved.CHANGES:
            yield "stream", stream_name(thing)
