"""Writes the configuration of a broker into a folder. Existing seeds and certificates are not changed."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.broker_config.store_key import MARK, require_same_key, require_text
from pallas_cli.broker_config.text import tls_text, users_text
from pallas_cli.broker_config.users import SYSTEM, Seeds, WorkerTeams, broker_users
from pallas_cli.private_files import PRIVATE, kept, private_folder
from pallas_cli.refused import Refused

USERS, TLS, STORE = "users.conf", "tls.conf", "store.conf"
"""The files that the broker's own configuration includes."""

READABLE = 0o444
"""The mode of secrets for containers, which mount single files and run as another user."""


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """The folder with `users.conf`, for TLS `tls.conf` and `tls/`, and `secrets/nats` with seeds and `store.conf`."""

    folder: Path
    containers: bool = False

    @property
    def seeds(self) -> Seeds:
        """The seeds of its users."""
        return Seeds(self.folder / "secrets" / "nats", self._mode)

    @property
    def _mode(self) -> int:
        return READABLE if self.containers else PRIVATE

    def write_users(self, workers: Sequence[WorkerTeams]) -> list[str]:
        """Write the users, and missing seeds. Returns the names of the users."""
        users = broker_users(workers)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / USERS).write_text(users_text(users, self.seeds), "utf-8")
        return [*(user.name for user in users), SYSTEM]

    def write_tls(self, hosts: Sequence[str], *, seen_at: Path | None = None) -> None:
        """Write a certificate for these hosts and its authority's. `seen_at` is the folder's path for the broker."""
        from pallas_cli.broker_config.authority import CERTIFICATE, KEY, make_certificate

        folder = self.folder / "tls"
        make_certificate(folder, hosts, mode=self._mode)
        seen = seen_at or folder.absolute()
        (self.folder / TLS).write_text(tls_text(seen / CERTIFICATE, seen / KEY), "utf-8")

    def write_store_key(self) -> None:
        """Write the key with which the broker encrypts its store, unless it exists. Without it the store is lost.

        Raises:
            Refused: the key that was written before is missing, or is another one now.
        """
        path, mark = self.seeds.folder / STORE, self.folder / MARK
        store = f"the broker's store (its volume) and {mark}"
        if (beside := self.folder / STORE).is_file() and not path.exists():
            private_folder(path.parent)
            beside.rename(path)
        if not path.exists() and mark.exists():
            raise Refused(f"the key of the broker's store is missing: put {path} back; if it is gone, remove {store}")
        text = kept(path, lambda: f'cipher: aes\nkey: "{secrets.token_hex(32)}"\n', self._mode)
        require_same_key(require_text(text, str(path)), mark, str(path), store=store)
