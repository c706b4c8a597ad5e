"""`pallas backup`: save an installation while it runs, and restore it."""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from pallas_cli.backup import commands
from pallas_cli.backup.commands import RestoreOptions
from pallas_cli.backup.commands import restore as run
from pallas_cli.backup.keys import make_identity
from pallas_cli.backup.target import running
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl
from pallas_cli.contexts import kept_in, setting
from pallas_cli.options import After, Limit, Page, Yes, confirm
from pallas_cli.waiting import shown
from pallas_contracts.catalog import BACKUP

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


def _run(work: Coroutine[Any, Any, None]) -> None:

    asyncio.run(work)


@app.command()
def key(
    out: Annotated[Path, typer.Option("--out", help="File to write the identity to. Keep it away from the platform.")],
    as_json: AsJson = False,
) -> None:
    """Make a key for backups. Writes the identity that opens them, and prints the public key that makes them."""
    public = make_identity(out)
    print(json.dumps({"public_key": public, "identity": str(out)}) if as_json else public)


@app.command()
def create(
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
    _run(commands.create(store, recipient or (), installation, kept_in(data, ""), keep, as_json=as_json))


@app.command("list")
def list_backups(store: Where, limit: Limit = None, after: After = None, as_json: AsJson = False) -> None:
    """List backups, the oldest first. Interrupted backups are not listed."""
    with shown("reading the store"):
        commands.show_list(store, Page(limit, after), as_json=as_json)


@app.command()
def show(store: Where, backup: Backup = "latest", as_json: AsJson = False) -> None:
    """Show what a backup has, as its manifest says. `verify` checks it."""
    with shown("reading the store"):
        commands.show(store, backup, as_json=as_json)


@app.command()
def verify(
    store: Where,
    backup: Backup = "latest",
    identity: Identity = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Check every file of a backup, and the keys that are here. With --identity, open the files, too."""
    _run(commands.check(store, backup, identity, kept_in(data, ""), as_json=as_json))


@app.command()
def restore(
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
    options = RestoreOptions(nats or setting("nats"), postgres, data, replace, yes, ignore_keys, no_databases, replicas)
    _run(run(store, backup, identity, options, as_json=as_json))


@app.command()
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
        commands.remove_old(store, keep, dry=dry_run, as_json=as_json)
