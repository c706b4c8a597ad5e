"""Makes a backup of a running installation, and checks one without restoring it.

The manifest is written last: without it there is no backup. A check compares the checksum of every file and, with the
identity, opens each.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from pyrage import x25519

from pallas_bus.connection import Bus
from pallas_bus.snapshots import Snapshot, snapshot
from pallas_cli.backup import databases
from pallas_cli.backup.keys import fingerprints, make_codes
from pallas_cli.backup.sealing import Damaged, Sealed, check, seal, unseal
from pallas_cli.backup.store import CODES, MANIFEST, Kind, Manifest, Part, Store, new_id, parts_in_order, path_of
from pallas_cli.refused import Refused

type Say = Callable[[str], None]

_READ = 1024 * 1024


def sealed_of(part: Part) -> Sealed:
    """What the manifest says of the file of a part."""
    return Sealed(part.size, part.sha256, part.plain)


async def verify(store: Store, manifest: Manifest, identities: Sequence[x25519.Identity], say: Say) -> None:
    """Check every part. Without `identities` only checksums are compared.

    Raises:
        Refused: parts are damaged; with a line for each.
    """
    faults = list[str]()
    for part in manifest.parts:
        path = path_of(manifest.id, part.kind, part.name)
        try:
            if identities:
                await _open(store, path, part, identities)
            else:
                await check(store, path, sealed_of(part))
        except Refused as fault:
            faults += fault.lines
        else:
            say(f"{'opened' if identities else 'compared'} {part.kind} {part.name}")
    if faults:
        raise Refused(*faults)


async def _open(store: Store, path: str, part: Part, identities: Sequence[x25519.Identity]) -> None:
    async def count(source: BinaryIO) -> int:
        size = 0
        while chunk := await asyncio.to_thread(source.read, _READ):
            size += len(chunk)
        return size

    if await unseal(store, path, sealed_of(part), identities, count) != part.plain:
        raise Damaged(path, "what is in it has another size than the manifest says")


@dataclass
class Creating:
    """Makes one backup in `store`, to be opened by any of `recipients`. `urls` are the databases by name."""

    bus: Bus
    urls: Mapping[str, str]
    store: Store
    recipients: Sequence[x25519.Recipient]
    secrets: Path | None
    say: Say
    _parts: list[Part] = field(default_factory=list[Part])
    _absent: list[str] = field(default_factory=list[str])

    async def create(self) -> Manifest:
        """Save everything, and return the manifest.

        What was written is removed again if something fails.

        Raises:
            Refused: a database or the store cannot be used.
            Unavailable: the broker does not answer.
        """
        began = datetime.now(UTC)
        backup = new_id(began)
        keys = fingerprints(backup, self.secrets)
        try:
            for kind, name in parts_in_order():
                await self._save(backup, kind, name)
            manifest = Manifest(
                id=backup,
                release=version("pallas-cli"),
                began_at=began,
                ended_at=datetime.now(UTC),
                recipients=tuple(map(str, self.recipients)),
                parts=tuple(self._parts),
                absent=tuple(self._absent),
                keys=keys,
            )
            self._require_something(manifest)
            text = manifest.model_dump_json(indent=2).encode()
            for name, content in ((CODES, make_codes(backup, text, self.secrets)), (MANIFEST, text)):
                await asyncio.to_thread(self.store.put, f"{backup}/{name}", content)
        except BaseException:
            with suppress(Refused):
                await asyncio.to_thread(self.store.remove, backup)
            raise
        return manifest

    async def _save(self, backup: str, kind: Kind, name: str) -> None:
        path, at = path_of(backup, kind, name), datetime.now(UTC)
        if kind == "database":
            if (url := self.urls.get(name)) is None:
                self._absent.append(name)
                return
            sealed = await seal(self.store, path, self.recipients, lambda sink: databases.dump(url, sink))
            self._saved(_part(kind, name, at, sealed))
            return
        async with snapshot(self.bus, name) as taken:
            if taken is None:
                self._absent.append(name)
                return
            sealed = await seal(self.store, path, self.recipients, lambda sink: _write(taken, sink))
            stream = {"config": dict(taken.stream.config), "state": dict(taken.stream.state)}
            self._saved(_part(kind, name, at, sealed, stream))

    def _saved(self, part: Part) -> None:
        self._parts.append(part)
        messages = f"{part.messages} messages, " if part.messages is not None else ""
        self.say(f"saved {part.kind} {part.name}: {messages}{part.size} B")

    def _require_something(self, manifest: Manifest) -> None:
        if not any(part.kind == "stream" for part in manifest.parts):
            raise Refused("the broker has no stream of Pallas; is this the right one?")


async def _write(taken: Snapshot, sink: BinaryIO) -> None:
    async for chunk in taken.chunks():
        await asyncio.to_thread(sink.write, chunk)


def _part(kind: Kind, name: str, at: datetime, sealed: Sealed, stream: dict[str, Any] | None = None) -> Part:
    size, digest = sealed.size, sealed.sha256
    return Part(kind=kind, name=name, saved_at=at, size=size, sha256=digest, plain=sealed.plain, stream=stream)
