"""What the commands of `pallas backup` do and print: progress to standard error, results to standard output."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pallas_bus.transport.connection import Bus
from pallas_cli.backup.create import Creating
from pallas_cli.backup.identities import read_identities, read_recipients
from pallas_cli.backup.keys import differences
from pallas_cli.backup.manifest import Manifest
from pallas_cli.backup.retention import prune
from pallas_cli.backup.store import Store, open_store
from pallas_cli.backup.target import Installation
from pallas_cli.backup.verify import verify
from pallas_cli.backup.vouching import who_vouches
from pallas_cli.broker import platform
from pallas_cli.paging import Page
from pallas_cli.plain_table import print_table
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused
from pallas_contracts.catalog import BACKUP
from pallas_contracts.errors import PallasError

LATEST = "latest"
UNVOUCHED = "No key shows that the manifest is unchanged: there was none when it was made, or none of them is here."


def say(line: str) -> None:
    """Report progress."""
    print_plain(line, err=True)


async def create(
    where: str,
    recipients: Sequence[str],
    installation: Installation,
    secrets: Path | None,
    keep: int | None,
    *,
    as_json: bool,
) -> None:
    """Make a backup, and remove old ones."""
    to, store = read_recipients(recipients), open_store(where, make=True)
    async with connected(installation, BACKUP) as bus:
        manifest = await Creating(bus, installation.urls, store, to, secrets, say).create()
    gone = await asyncio.to_thread(prune, store, keep) if keep is not None else []
    for name, key in manifest.keys.items():
        if key is None:
            say(f"note: the key {name} is not here, so a restore cannot say whether it has the right one")
    for each in gone:
        say(f"removed {each}")
    if as_json:
        print(json.dumps({**row_of(manifest), "removed": gone}, indent=2))
    else:
        print_plain(manifest.id)


def show_list(where: str, page: Page, *, as_json: bool) -> None:
    """List all backups, the oldest first."""
    store = open_store(where)
    rows = [row_of(store.manifest(each)) for each in page.cut(store.finished(), str)]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain(f"No backups in {where}.")
    else:
        headers = ("backup", "began", "seconds", "streams", "messages", "databases", "size")
        print_table(headers, ([str(row[name]) for name in headers] for row in rows))


async def check(where: str, backup: str, identity: Path | None, secrets: Path | None, *, as_json: bool) -> None:
    """Check a backup, and say what a restore would do."""
    store = open_store(where)
    manifest, identities = find(store, backup), read_identities(identity)
    vouching = await asyncio.to_thread(who_vouches, store, manifest, secrets)
    await verify(store, manifest, identities, say)
    faults = list(differences(manifest.id, manifest.keys, secrets))
    if as_json:
        found = {"opened": bool(identities), "parts": _parts(manifest), "keys": faults, "vouched_by": vouching}
        print(json.dumps({**row_of(manifest), **found}, indent=2))
        return
    _print_parts(manifest)
    for fault in faults:
        print_plain(f"Key: {fault}")
    print_plain(f"The manifest is unchanged, as these keys show: {', '.join(vouching)}." if vouching else UNVOUCHED)
    print_plain(f"{manifest.id} is whole{'' if identities else '; pass --identity to see that it can be opened'}.")


def show(where: str, backup: str, *, as_json: bool) -> None:
    """Print what a backup has, from its manifest alone."""
    manifest = find(open_store(where), backup)
    if as_json:
        print(json.dumps({**row_of(manifest), "parts": _parts(manifest)}, indent=2))
        return
    for name, value in row_of(manifest).items():
        print_plain(f"{name}: {', '.join(manifest.absent) or 'nothing' if name == 'absent' else value}")
    _print_parts(manifest)


def _parts(manifest: Manifest) -> list[dict[str, object]]:
    return [
        {"kind": part.kind, "name": part.name, "messages": part.messages, "size": part.plain} for part in manifest.parts
    ]


def _print_parts(manifest: Manifest) -> None:
    columns = ("name", "kind", "messages", "size")
    rows = _parts(manifest)
    print_table(columns, (["-" if part[name] is None else str(part[name]) for name in columns] for part in rows))


def remove_old(where: str, keep: int, *, dry: bool, as_json: bool) -> None:
    """Remove all backups but the newest."""
    gone = prune(open_store(where), keep, dry=dry)
    if as_json:
        print(json.dumps({"removed": gone, "dry_run": dry}, indent=2))
    else:
        for each in gone:
            print_plain(f"{'would remove' if dry else 'removed'} {each}")


def find(store: Store, backup: str) -> Manifest:
    """The backup of that id, or the newest one.

    Raises:
        Refused: there is none.
    """
    if backup != LATEST:
        return store.manifest(backup)
    if not (finished := store.finished()):
        raise Refused(f"{store.where} has no backup", word="not_found")
    return store.manifest(finished[-1])


@asynccontextmanager
async def connected(installation: Installation, user: str) -> AsyncGenerator[Bus]:
    """Connect to the broker of an installation as this user.

    Raises:
        Refused: it cannot be reached, or refuses something inside the block.
    """
    try:
        async with platform(installation.access, user) as bus:
            yield bus
    except PallasError as error:
        raise Refused(error.message) from error


def row_of(manifest: Manifest) -> dict[str, object]:
    """A backup as plain values: sizes in bytes, times ISO 8601."""
    streams = [part for part in manifest.parts if part.kind == "stream"]
    return {
        "backup": manifest.id,
        "began": manifest.began_at.isoformat(timespec="seconds"),
        "seconds": round((manifest.ended_at - manifest.began_at).total_seconds(), 1),
        "streams": len(streams),
        "messages": sum(part.messages or 0 for part in streams),
        "databases": len(manifest.parts) - len(streams),
        "size": manifest.size,
        "release": manifest.release,
        "absent": list(manifest.absent),
    }
