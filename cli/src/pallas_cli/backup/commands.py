"""What the commands of `pallas backup` do and print: progress to standard error, results to standard output."""

import asyncio
import getpass
import json
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pallas_bus.transport.connection import Bus
from pallas_cli.backup.create import Creating
from pallas_cli.backup.identities import read_identities, read_recipients
from pallas_cli.backup.keys import differences
from pallas_cli.backup.manifest import Manifest
from pallas_cli.backup.restore import Restoring
from pallas_cli.backup.retention import prune
from pallas_cli.backup.store import Store, open_store
from pallas_cli.backup.target import Installation, running, stopped
from pallas_cli.backup.verify import verify
from pallas_cli.broker import platform
from pallas_cli.plain_table import print_table
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused
from pallas_cli.stack.data import SECRETS
from pallas_contracts.catalog import BACKUP, RESTORE
from pallas_contracts.errors import PallasError

LATEST = "latest"


def say(line: str) -> None:
    """Report progress."""
    print_plain(line, err=True)


def operator() -> str:
    """Who does this: the account and the machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


async def create(
    where: str, recipients: Sequence[str], installation: Installation, secrets: Path, keep: int | None, *, as_json: bool
) -> None:
    """Make a backup, and remove old ones."""
    to, store = read_recipients(recipients), open_store(where)
    async with _connected(installation, BACKUP) as bus:
        manifest = await Creating(bus, installation.urls, store, to, secrets, say).create()
    gone = await asyncio.to_thread(prune, store, keep) if keep is not None else []
    for name, key in manifest.keys.items():
        if key is None:
            say(f"note: the key {name} is not here, so a restore cannot say whether it has the right one")
    for each in gone:
        say(f"removed {each}")
    if as_json:
        print(json.dumps({**_row(manifest), "removed": gone}, indent=2))
    else:
        print_plain(manifest.id)


def show_list(where: str, *, as_json: bool) -> None:
    """List all backups, the oldest first."""
    store = open_store(where)
    rows = [_row(store.manifest(each)) for each in store.finished()]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain(f"No backups in {where}.")
    else:
        headers = ("backup", "began", "seconds", "streams", "messages", "databases", "size")
        print_table(headers, ([str(row[name]) for name in headers] for row in rows))


async def check(where: str, backup: str, identity: Path | None, secrets: Path, *, as_json: bool) -> None:
    """Check a backup, and say what a restore would do."""
    store = open_store(where)
    manifest, identities = find(store, backup), read_identities(identity)
    await verify(store, manifest, identities, say)
    faults = list(differences(manifest.id, manifest.keys, secrets))
    parts = [
        {"kind": part.kind, "name": part.name, "messages": part.messages, "size": part.plain} for part in manifest.parts
    ]
    if as_json:
        print(json.dumps({**_row(manifest), "opened": bool(identities), "parts": parts, "keys": faults}, indent=2))
        return
    columns = ("name", "kind", "messages", "size")
    print_table(columns, (["-" if part[name] is None else str(part[name]) for name in columns] for part in parts))
    for fault in faults:
        print_plain(f"Key: {fault}")
    print_plain(f"{manifest.id} is whole{'' if identities else '; pass --identity to see that it can be opened'}.")


async def restore(
    where: str,
    backup: str,
    identity: Path | None,
    nats: str | None,
    postgres: str | None,
    data: Path,
    *,
    replace: bool,
    confirmed: bool,
    ignore_keys: bool,
    keep_databases: bool,
    replicas: int,
    as_json: bool,
) -> None:
    """Restore a backup: into the data folder of a stack that is stopped, or at these addresses."""
    store = open_store(where)
    manifest, identities = find(store, backup), read_identities(identity)
    if not identities:
        raise Refused("pass the identity that opens the backup with --identity")
    if (faults := list(differences(manifest.id, manifest.keys, data / SECRETS))) and not ignore_keys:
        raise Refused(*faults, "put these keys back first, or pass --ignore-keys")
    say(f"checking {manifest.id}")
    await verify(store, manifest, identities, lambda _line: None)
    async with _target(manifest, nats, postgres, data) as installation, _connected(installation, RESTORE) as bus:
        missing = [
            part.name for part in manifest.parts if part.kind == "database" and part.name not in installation.urls
        ]
        if missing:
            raise Refused(f"no address of the databases {', '.join(missing)}: set PALLAS_POSTGRES_URL")
        restoring = Restoring(
            bus, installation.urls, store, manifest, identities, operator(), replicas, keep_databases, say
        )
        await restoring.require_stopped()
        found = await restoring.found()
        if found and not (replace and confirmed):
            how = "pass --yes to confirm that it is lost" if replace else "pass --replace and --yes to lose it"
            raise Refused(*found, f"the installation is not empty: {how}", code=1)
        hold = await restoring.restore()
    if as_json:
        print(json.dumps({**_row(manifest), "held": True, "replaced": found, "queue_end": hold.queue_end}, indent=2))
    else:
        print_plain(
            f"{manifest.id} is restored. Start the installation: no turn is executed until you have decided about"
        )
        print_plain("each turn of the backup (pallas turns reconcile). Restart Redis if it was not stopped.")


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
        raise Refused(f"{store.where} has no backup", code=1)
    return store.manifest(finished[-1])


@asynccontextmanager
async def _target(
    manifest: Manifest, nats: str | None, postgres: str | None, data: Path
) -> AsyncGenerator[Installation]:
    with_databases = any(part.kind == "database" for part in manifest.parts)
    if nats is not None:
        yield running(nats, postgres, data, user=RESTORE, without=not with_databases)
        return
    async with stopped(data, with_databases=with_databases) as installation:
        yield installation


@asynccontextmanager
async def _connected(installation: Installation, user: str) -> AsyncGenerator[Bus]:
    try:
        async with platform(installation.access, user) as bus:
            yield bus
    except PallasError as error:
        raise Refused(error.message, code=1) from error


def _row(manifest: Manifest) -> dict[str, object]:
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
