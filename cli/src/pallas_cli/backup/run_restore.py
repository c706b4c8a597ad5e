"""`pallas backup restore`: checks everything before it removes anything."""

import getpass
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.backup.commands import UNVOUCHED, connected, find, row_of, say
from pallas_cli.backup.identities import read_identities
from pallas_cli.backup.keys import differences
from pallas_cli.backup.manifest import Manifest
from pallas_cli.backup.restore import Restoring
from pallas_cli.backup.store import Store, open_store
from pallas_cli.backup.target import Installation, running, stopped
from pallas_cli.backup.verify import verify
from pallas_cli.backup.vouching import who_vouches
from pallas_cli.confirming import confirm
from pallas_cli.contexts import kept_in
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.catalog import RESTORE


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
