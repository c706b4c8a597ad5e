"""Writes what a broker is configured with into a folder, again and again: seeds and certificates stay as they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.broker_config.text import tls_text, users_text
from pallas_cli.broker_config.users import Seeds, WorkerTeams, broker_users
from pallas_cli.private_files import PRIVATE

USERS, TLS = "users.conf", "tls.conf"
"""The files that the broker's own configuration includes."""

READABLE = 0o444
"""The mode of secrets for containers, which see the file alone and whose user is another."""


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """Where it all goes: `users.conf`, `secrets/nats/USER.seed`, and with TLS `tls.conf` and `tls/`."""

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
        """Write the users, with seeds for those that have none. Returns their names."""
        users = broker_users(workers)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / USERS).write_text(users_text(users, self.seeds), "utf-8")
        return [user.name for user in users]

    def write_tls(self, hosts: Sequence[str], *, seen_at: Path | None = None) -> None:
        """Write a certificate for these hosts and its authority's; `seen_at` is where the broker finds them."""
        from pallas_cli.broker_config.authority import CERTIFICATE, KEY, make_certificate

        folder = self.folder / "tls"
        make_certificate(folder, hosts, mode=self._mode)
        seen = seen_at or folder.absolute()
        (self.folder / TLS).write_text(tls_text(seen / CERTIFICATE, seen / KEY), "utf-8")
