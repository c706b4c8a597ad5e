"""What the commands of `pallas backup` do and print: progress to standard error, results to standard output."""

import asyncio
import getpass
import json
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pallas_bus.connection import Bus
from pallas_cli.backup.create import Creating, verify
from pallas_cli.backup.keys import differences, read_identities, read_recipients, who_vouches
from pallas_cli.backup.restore import Restoring
from pallas_cli.backup.store import Manifest, Store, open_store, prune
from pallas_cli.backup.target import Installation, running, stopped
from pallas_cli.broker import platform
from pallas_cli.contexts import kept_in
from pallas_cli.options import Page, confirm
from pallas_cli.plain_text import print_answer, print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.catalog import BACKUP, RESTORE
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
    print_answer({**row_of(manifest), "removed": gone}, manifest.id, as_json=as_json)


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


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Where the backup goes, and what the user agrees to.

    Without `nats` it goes into the stopped stack in `data`. `confirmed`: what is replaced may be lost.
    """

    nats: str | None
    postgres: str | None
    data: Path
    replace: bool
    confirmed: bool
    ignore_keys: bool
    keep_databases: bool
    replicas: int

    def require_agreement(self, found: list[str], *, as_json: bool) -> None:
        """Check that the user agrees to lose what the installation has.

        Raises:
            Refused: there is something, and it is not to be replaced.
            WrongUsage: it is to be replaced, and nobody can be asked.
            Abort: the user answers no.
        """
        if found and not self.replace:
            raise Refused(*found, "the installation is not empty: pass --replace and --yes to lose it")
        if found:
            confirm("what the installation has is lost", yes=self.confirmed, as_json=as_json, after=found)


async def restore(where: str, backup: str, identity: Path | None, options: RestoreOptions, *, as_json: bool) -> None:
    """Restore a backup, and print what to do next.

    Raises:
        Refused: the backup, the keys or the installation are not as they have to be.
    """
    store = open_store(where)
    manifest, identities = find(store, backup), read_identities(identity)
    if not identities:
        raise WrongUsage("pass the identity that opens the backup with --identity")
    _require_keys(store, manifest, options)
    say(f"checking {manifest.id}")
    await verify(store, manifest, identities, lambda _line: None)
    async with _target(manifest, options) as installation, connected(installation, RESTORE) as bus:
        by = f"{getpass.getuser()}@{socket.gethostname()}"
        keep, urls = options.keep_databases, installation.urls
        restoring = Restoring(bus, urls, store, manifest, identities, by, options.replicas, keep, say)
        if options.nats is not None:  # else the lock of the data folder says that nothing runs
            await restoring.require_stopped()
        found = await restoring.found()
        options.require_agreement(found, as_json=as_json)
        hold = await restoring.restore()
    if as_json:
        print(json.dumps({**row_of(manifest), "held": True, "replaced": found, "queue_end": hold.queue_end}, indent=2))
        return
    print_plain(f"{manifest.id} is restored. Start the installation, and Redis anew if it was not stopped.")
    print_plain("No turn is executed until you have decided about each turn of the backup: pallas turns reconcile")


def _require_keys(store: Store, manifest: Manifest, options: RestoreOptions) -> None:
    secrets = kept_in(options.data, "")
    faults = list(differences(manifest.id, manifest.keys, secrets))
    if not who_vouches(store, manifest, secrets) and not faults:
        faults = [UNVOUCHED]
    if faults and not options.ignore_keys:
        raise Refused(*faults, "put these keys back first, or pass --ignore-keys")


@asynccontextmanager
async def _target(manifest: Manifest, options: RestoreOptions) -> AsyncGenerator[Installation]:
    wanted = {part.name for part in manifest.parts if part.kind == "database"}
    if options.nats is None:
        async with stopped(options.data, with_databases=bool(wanted)) as installation:
            yield installation
        return
    say("restoring into the installation that --nats or the context names; --data names a stack that is stopped")
    installation = running(options.nats, options.postgres, options.data, user=RESTORE, without=not wanted)
    if missing := wanted.difference(installation.urls):
        raise WrongUsage(f"no address of the databases {', '.join(sorted(missing))}: set PALLAS_POSTGRES_URL")
    yield installation
