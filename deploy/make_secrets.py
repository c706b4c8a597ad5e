"""Makes the secrets of compose and Kubernetes: a file each in deploy/secrets, once; what is there is left as it is.

The broker's users and certificate lie beside that folder. Users are written each time: their rights follow from the
agents of the team that is hosted, `PALLAS_TEAM` as compose reads it.

The folder is for its owner only. The files in it can be read by everybody, because a container sees the file alone and
its user is another one. The passwords of people are there beside the hashes that the services get.
"""

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from argon2 import PasswordHasher
from cryptography.fernet import Fernet

from pallas_cli import private_files
from pallas_cli.broker_config.users import read_workers
from pallas_cli.broker_config.write import READABLE, BrokerFolder
from pallas_contracts.catalog import CLI, PER_TEAM, SPEAKERS

HERE = Path(__file__).parent
FOLDER = HERE / "secrets"
TEAM = HERE / "demo-team"
BROKER = ("nats", "*.nats-servers", "localhost", "127.0.0.1")
"""Names of the broker: that of compose and Kubernetes, those of several to each other, and this machine's."""
DATABASES = ("team-lifecycle", "library-search")
ACCOUNTS = ("admin", "daedalus-service")


def make_secrets(folder: Path, team: Path = TEAM) -> list[str]:
    """Make what is missing, and return the names of it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made: list[str] = []

    def kept(name: str, make: Callable[[], str]) -> str:
        if not (folder / name).exists():
            made.append(name)
        return private_files.kept(folder / name, make, READABLE)

    for name in ("log-key", "request-state-key", "postgres-password"):
        kept(name, _random)
    kept("fernet-keys", lambda: Fernet.generate_key().decode())
    redis = kept("redis-password", _random)
    kept("redis-url", lambda: f"redis://:{redis}@redis:6379")
    for service in DATABASES:
        password, name = kept(f"{service}-postgres-password", _random), service.replace("-", "_")
        kept(f"{service}-postgres-url", lambda p=password, n=name: f"postgresql://{n}:{p}@postgres:5432/{n}")
    for account in ACCOUNTS:
        password = kept(f"{account}-password", _random)
        kept(f"{account}-password-hash", lambda p=password: PasswordHasher().hash(p))
    return [*made, *_let_in(folder, team)]


def _let_in(folder: Path, team: Path) -> list[str]:
    """Write the broker's users, and name what each service is told: its seed, and who vouches for the broker."""
    broker = BrokerFolder(folder.parent, containers=True)
    workers = read_workers([[team]], os.environ)
    broker.write_users(workers)
    broker.write_tls(BROKER, seen_at=Path("/etc/nats/tls"))
    users = {name: workers[0].user if name in PER_TEAM else name for name in SPEAKERS if name != CLI}
    named = {f"{name}-nats-seed": broker.seeds.path(user) for name, user in users.items()}
    named["nats-ca"] = broker.folder / "tls" / "ca.pem"
    return [name for name, path in named.items() if _named(folder / name, path)]


def _named(link: Path, path: Path) -> bool:
    """Let `link` lead to `path`; whether it did not yet."""
    target = path.relative_to(link.parent, walk_up=True)
    if link.is_symlink() and link.readlink() == target:
        return False
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return True


def _random() -> str:
    return secrets.token_hex(32)


if __name__ == "__main__":
    made = make_secrets(FOLDER, HERE / os.environ.get("PALLAS_TEAM", TEAM))
    sys.stdout.write(f"{len(made)} made in {FOLDER}\n")
