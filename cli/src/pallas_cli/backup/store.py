"""Where backups are kept, what each has, and how many are kept.

A store is a folder, or an object store such as S3 with the settings that obstore reads (`AWS_...`). A backup has one
file for each stream and database, and the manifest, which is written last. A folder without a manifest is no backup: it
is one that is being made, or that was interrupted.
"""

import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from pallas_bus.streams import stream_name
from pallas_cli.private_files import PRIVATE_FOLDER
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.catalog import BUCKETS, DATABASES, STREAMS
from pallas_contracts.contract import Saved
from pallas_contracts.ids import Token, check_token

if TYPE_CHECKING:
    from obstore.store import RetryConfig


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


_ERRORS = (BaseError, OSError)
_CODE = re.compile(r"<Code>(\w+)</Code>")
_PATIENCE: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
"""With its own settings a store that does not answer would be asked for three minutes."""


@dataclass(frozen=True)
class Store:
    """A store; `where` is its address, `folder` its folder unless it is an object store. Made by `open_store`."""

    where: str
    objects: ObjectStore
    folder: Path | None = None

    def put(self, path: str, content: Iterator[bytes] | bytes) -> None:
        """Store a file. It is there as a whole or not at all.

        Raises:
            Refused: the store cannot be written.
        """
        try:
            obstore.put(self.objects, path, content)
        except BrokenPipeError:  # of what writes the content
            raise
        except _ERRORS as error:
            raise self._refused("write", path, error) from error

    def get(self, path: str) -> Iterator[bytes]:
        """The chunks of a file.

        Raises:
            Refused: it does not exist, or the store cannot be read.
        """
        try:
            yield from map(bytes, obstore.get(self.objects, path).stream())
        except _ERRORS as error:
            raise self._refused("read", path, error) from error

    def finished(self) -> list[str]:
        """The ids of all backups, the oldest first. What has no manifest is none.

        Raises:
            Refused: the store cannot be read.
        """
        return sorted(path.partition("/")[0] for path in self._files() if path.endswith(f"/{MANIFEST}"))

    def unfinished(self) -> list[str]:
        """The ids of what was begun and has no manifest."""
        begun = {path.partition("/")[0] for path in self._files() if "/" in path}
        if self.folder is not None:  # a folder may be empty, or have the half of a file, which is not listed
            begun.update(path.name for path in self.folder.iterdir() if path.is_dir())
        return sorted(begun.difference(self.finished()))

    def manifest(self, backup: str) -> Manifest:
        """The manifest of a backup.

        Raises:
            Refused: there is no such backup, or its manifest cannot be read.
        """
        try:
            if (text := self.read(f"{backup}/{MANIFEST}")) is None:
                raise Refused(f"{self.where} has no backup {backup!r}", word="not_found")
            manifest = Manifest.model_validate_json(text)
        except ValueError as error:
            raise Refused(f"{self.where}: the manifest of {backup!r} is damaged, or of a later release") from error
        if manifest.id != backup:
            raise Refused(f"{self.where}: the manifest of {backup!r} is that of {manifest.id!r}")
        return manifest

    def read(self, path: str) -> bytes | None:
        """A small file as a whole; None if it does not exist.

        Raises:
            Refused: the store cannot be read.
        """
        try:
            return b"".join(map(bytes, obstore.get(self.objects, path).stream()))
        except FileNotFoundError:
            return None
        except _ERRORS as error:
            raise self._refused("read", path, error) from error

    def remove(self, backup: str) -> None:
        """Remove a backup, or what is left of one: the manifest first, so that no half of it counts as one.

        Raises:
            Refused: the store cannot be written.
        """
        manifest = f"{backup}/{MANIFEST}"
        try:
            files = self._files(backup)
            for path in sorted(files, key=lambda path: path != manifest):
                obstore.delete(self.objects, path)
            if self.folder is not None:
                shutil.rmtree(self.folder / backup, ignore_errors=True)
        except _ERRORS as error:
            raise self._refused("remove", backup, error) from error

    def _files(self, backup: str | None = None) -> set[str]:
        try:
            return {each["path"] for each in obstore.list(self.objects, backup).collect()}
        except _ERRORS as error:
            raise self._refused("list", backup or "", error) from error

    def _refused(self, verb: str, path: str, error: Exception) -> Refused:
        text = str(error)
        why = (text.splitlines() or [type(error).__name__])[0]
        if code := _CODE.search(text):  # of an object store: its answer is a document
            why = f"{why.partition(': <?xml')[0]} ({code[1]})"
        return Refused(f"cannot {verb} {path or 'backups'} in {self.where}: {why}")


def open_store(where: str, *, make: bool = False) -> Store:
    """Open the store at an address such as `s3://bucket/prefix`, or in a folder. `make`: make a missing folder.

    Raises:
        Refused: the address is of no known kind, or settings are missing.
    """
    try:
        if "://" in where:
            local = where.startswith(("file:", "memory:"))
            return Store(where, from_url(where) if local else from_url(where, retry_config=_PATIENCE))
        folder = Path(where).absolute()
        if make:
            folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise Refused(f"{where}: there is no such folder", word="not_found")
        return Store(where, LocalStore(folder), folder)
    except (*_ERRORS, ValueError, TypeError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise WrongUsage(f"{where}: backups cannot be stored there: {why}") from error


_GIVEN_UP = timedelta(days=1)


def prune(store: Store, keep: int, *, dry: bool = False) -> list[str]:
    """Remove all backups but the newest `keep`, and return the ids of what was removed. `dry`: remove nothing.

    Raises:
        Refused: the store cannot be used.
    """
    finished = store.finished()
    gone = finished[: max(0, len(finished) - keep)] + [each for each in store.unfinished() if _is_given_up(each)]
    for backup in () if dry else gone:
        store.remove(backup)
    return gone


def _is_given_up(backup: str) -> bool:
    try:
        began = datetime.strptime(backup.partition("-")[0], "%Y%m%dt%H%M%Sz").replace(tzinfo=UTC)
    except ValueError:  # a folder that is not ours
        return False
    return datetime.now(UTC) - began > _GIVEN_UP
