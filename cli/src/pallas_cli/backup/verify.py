"""Checks a backup without restoring it: the checksum of every file and, with the identity, that each can be opened."""

import asyncio
from collections.abc import Sequence
from typing import BinaryIO

from pyrage import x25519

from pallas_cli.backup.create import Say
from pallas_cli.backup.manifest import Manifest, Part, path_of
from pallas_cli.backup.sealing import Damaged, Sealed, check, unseal
from pallas_cli.backup.store import Store
from pallas_cli.refused import Refused

_CHUNK = 1024 * 1024


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
        while chunk := await asyncio.to_thread(source.read, _CHUNK):
            size += len(chunk)
        return size

    if await unseal(store, path, sealed_of(part), identities, count) != part.plain:
        raise Damaged(path, "what is in it has another size than the manifest says")
