"""`pallas backup`: save an installation while it runs, and restore it.

Progress goes to standard error, results to standard output.
"""

import asyncio
import getpass
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.backup.create import Creating, verify
from pallas_cli.backup.keys import differences, make_identity, read_identities, read_recipients, who_vouches
from pallas_cli.backup.restore import Restoring
from pallas_cli.backup.store import Manifest, Store, open_store
from pallas_cli.backup.store import prune as remove_old
from pallas_cli.backup.target import Installation, running, stopped
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, platform
from pallas_cli.command import Paged, command
from pallas_cli.contexts import kept_in, setting
from pallas_cli.options import Yes, confirm
from pallas_cli.plain_text import print_answer, print_list, print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.waiting import shown
from pallas_contracts.catalog import BACKUP, RESTORE

app = typer.Typer()

Where = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="PALLAS_BACKUP_STORE",
        help="Where backups are: a folder, or an address such as s3://bucket/prefix (settings: AWS_...).",
    ),
]
Postgres = Annotated[
    str | None,
    typer.Option(
        "--postgres",
        envvar="PALLAS_POSTGRES_URL",
        show_envvar=True,
        help="Address of the Postgres server. Each service may have its own: PALLAS_WORKSPACES_POSTGRES_URL and so on.",
    ),
]
Identity = Annotated[
    Path | None,
    typer.Option("--identity", envvar="PALLAS_BACKUP_IDENTITY_FILE", help="File with the identity that opens backups."),
]
Backup = Annotated[str, typer.Argument(metavar="BACKUP", help="Id of the backup, or `latest`.")]
Keep = Annotated[int, typer.Option(min=1, help="Number of backups to keep.")]


LATEST = "latest"
UNVOUCHED = "No key shows that the manifest is unchanged: there was none when it was made, or none of them is here."


def say(line: str) -> None:
    """Report progress."""
    print_plain(line, err=True)


@command(app)
def key(
    out: Annotated[Path, typer.Option("--out", help="File to write the identity to. Keep it away from the platform.")],
    as_json: AsJson = False,
) -> None:
    """Make a key for backups. Writes the identity that opens them, and prints the public key that makes them."""
    public = make_identity(out)
    print_answer({"public_key": public, "identity": str(out)}, public, as_json=as_json)


@command(app)
async def create(
    store: Where,
    recipient: Annotated[
        list[str] | None,
        typer.Option(envvar="PALLAS_BACKUP_RECIPIENT", help="Public key of whoever may open it. May be repeated."),
    ] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="Remove all but this number of backups afterwards.")] = None,
    no_databases: Annotated[bool, typer.Option("--no-databases", help="Save the broker only.")] = False,
    nats: NatsUrl = None,
    postgres: Postgres = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Save all streams, buckets and databases, encrypted. Prints the backup's id."""
    installation = running(nats, postgres, data, user=BACKUP, without=no_databases)
    to, saved = read_recipients(recipient or ()), open_store(store, make=True)
    async with platform(installation.access, BACKUP) as bus:
        manifest = await Creating(bus, installation.urls, saved, to, kept_in(data, ""), say).create()
    gone = await asyncio.to_thread(remove_old, saved, keep) if keep is not None else []
    for name, key in manifest.keys.items():
        if key is None:
            say(f"note: the key {name} is not here, so a restore cannot say whether it has the right one")
    for each in gone:
        say(f"removed {each}")
    print_answer({**row_of(manifest), "removed": gone}, manifest.id, as_json=as_json)


@command(app, "list")
def list_backups(store: Where, page: Paged, as_json: AsJson = False) -> None:
    """List backups, the oldest first. Interrupted backups are not listed."""
    with shown("reading the store"):
        opened = open_store(store)
        rows = [row_of(opened.manifest(each)) for each in page.cut(opened.finished(), str)]
    headers = ("backup", "began", "seconds", "streams", "messages", "databases", "size")
    cells = ([str(row[name]) for name in headers] for row in rows)
    print_list(rows, headers, cells, nothing=f"No backups in {store}.", as_json=as_json)


@command(app)
def show(store: Where, backup: Backup = LATEST, as_json: AsJson = False) -> None:
    """Show what a backup has, as its manifest says. `verify` checks it."""
    with shown("reading the store"):
        manifest = find(open_store(store), backup)
    row = row_of(manifest) | {"absent": ", ".join(manifest.absent) or "nothing"}
    lines = [f"{name}: {value}" for name, value in row.items()]
    print_answer({**row_of(manifest), "parts": _parts(manifest)}, "\n".join(lines), as_json=as_json)
    if not as_json:
        _print_parts(manifest)


@command(app, "verify")
async def check(
    store: Where,
    backup: Backup = "latest",
    identity: Identity = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Check every file of a backup, and the keys that are here. With --identity, open the files, too."""
    opened, secrets = open_store(store), kept_in(data, "")
    manifest, identities = find(opened, backup), read_identities(identity)
    vouching = await asyncio.to_thread(who_vouches, opened, manifest, secrets)
    await verify(opened, manifest, identities, say)
    faults = list(differences(manifest.id, manifest.keys, secrets))
    if not as_json:
        _print_parts(manifest)
    unchanged = f"The manifest is unchanged, as these keys show: {', '.join(vouching)}." if vouching else UNVOUCHED
    whole = f"{manifest.id} is whole{'' if identities else '; pass --identity to see that it can be opened'}."
    found = {"opened": bool(identities), "parts": _parts(manifest), "keys": faults, "vouched_by": vouching}
    lines = [*(f"Key: {fault}" for fault in faults), unchanged, whole]
    print_answer({**row_of(manifest), **found}, "\n".join(lines), as_json=as_json)


@command(app)
async def restore(
    store: Where,
    backup: Backup,
    identity: Identity = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace what the installation has.")] = False,
    yes: Yes = False,
    ignore_keys: Annotated[
        bool,
        typer.Option(
            "--ignore-keys",
            help="Restore although keys are missing or have changed, or none shows that the manifest is unchanged.",
        ),
    ] = False,
    no_databases: Annotated[
        bool, typer.Option("--no-databases", help="Restore the broker only; the databases stay as they are.")
    ] = False,
    replicas: Annotated[int, typer.Option(min=1, max=5, help="Replicas of each stream, until its owner starts.")] = 1,
    nats: NatsUrl = None,
    postgres: Postgres = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Restore a backup. Stop all but the broker and Postgres first. No turn runs until `turns reconcile --release`.

    Without --nats, and without a context that has it, the backup is restored into the data folder of a stack that does
    not run.
    """
    nats, opened = nats or setting("nats"), open_store(store)
    manifest, identities = find(opened, backup), read_identities(identity)
    if not identities:
        raise WrongUsage("pass the identity that opens the backup with --identity")
    if not ignore_keys:
        _require_keys(opened, manifest, kept_in(data, ""))
    say(f"checking {manifest.id}")
    await verify(opened, manifest, identities, lambda _line: None)
    target = _target(manifest, nats, postgres, data)
    async with target as installation, platform(installation.access, RESTORE) as bus:
        by = f"{getpass.getuser()}@{socket.gethostname()}"
        restoring = Restoring(bus, installation.urls, opened, manifest, identities, by, replicas, no_databases, say)
        if nats is not None:  # else the lock of the data folder says that nothing runs
            await restoring.require_stopped()
        found = await restoring.found()
        require_agreement(found, replace=replace, yes=yes, as_json=as_json)
        hold = await restoring.restore()
    done = f"{manifest.id} is restored. Start the installation, and Redis anew if it was not stopped."
    held = "No turn is executed until you have decided about each turn of the backup: pallas turns reconcile"
    answer = {**row_of(manifest), "held": True, "replaced": found, "queue_end": hold.queue_end}
    print_answer(answer, f"{done}\n{held}", as_json=as_json)


@command(app)
def prune(
    store: Where,
    keep: Keep,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove all but the newest backups. Backups that were interrupted more than a day ago are removed, too."""
    if not dry_run:
        confirm(f"all but the newest {keep} backups are removed", yes=yes, as_json=as_json)
    with shown("removing backups"):
        gone = remove_old(open_store(store), keep, dry=dry_run)
    lines = [f"{'would remove' if dry_run else 'removed'} {each}" for each in gone]
    if lines or as_json:
        print_answer({"removed": gone, "dry_run": dry_run}, "\n".join(lines), as_json=as_json)


def _parts(manifest: Manifest) -> list[dict[str, object]]:
    return [
        {"kind": part.kind, "name": part.name, "messages": part.messages, "size": part.plain} for part in manifest.parts
    ]


def _print_parts(manifest: Manifest) -> None:
    columns = ("name", "kind", "messages", "size")
    rows = _parts(manifest)
    print_table(columns, (["-" if part[name] is None else str(part[name]) for name in columns] for part in rows))


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


def require_agreement(found: list[str], *, replace: bool, yes: bool, as_json: bool) -> None:
    """Check that the user agrees to lose what the installation has."""
    if found and not replace:
        raise Refused(*found, "the installation is not empty: pass --replace and --yes to lose it")
    if found:
        confirm("what the installation has is lost", yes=yes, as_json=as_json, after=found)


def _require_keys(store: Store, manifest: Manifest, secrets: Path | None) -> None:
    faults = list(differences(manifest.id, manifest.keys, secrets))
    if not who_vouches(store, manifest, secrets) and not faults:
        faults = [UNVOUCHED]
    if faults:
        raise Refused(*faults, "put these keys back first, or pass --ignore-keys")


@asynccontextmanager
async def _target(
    manifest: Manifest, nats: str | None, postgres: str | None, data: Path
) -> AsyncGenerator[Installation]:
    wanted = {part.name for part in manifest.parts if part.kind == "database"}
    if nats is None:
        async with stopped(data, with_databases=bool(wanted)) as installation:
            yield installation
        return
    say("restoring into the installation that --nats or the context names; --data names a stack that is stopped")
    installation = running(nats, postgres, data, user=RESTORE, without=not wanted)
    if missing := wanted.difference(installation.urls):
        raise WrongUsage(f"no address of the databases {', '.join(sorted(missing))}: set PALLAS_POSTGRES_URL")
    yield installation
