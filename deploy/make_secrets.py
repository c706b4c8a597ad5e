"""Generates the secrets of Compose and Kubernetes, one file each in deploy/secrets. Existing files are not changed.

The broker's users and certificate are written beside that folder, and the key of its store into its folder `nats`.
Users are written each time, because their rights follow from the agents of the hosted team (`PALLAS_TEAM`, as Compose
reads it).

The folder is private to its owner. Its files are readable by everybody, because containers mount single files and run
as another user. Passwords of accounts are stored beside the hashes that services get. `coder-token` is a placeholder:
only a Coder gives tokens that it accepts. What people have and no pod needs is in `operators`, and kubectl ignores the
links to it, so it stays outside of the cluster: the password of `admin`.
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
from pallas_cli.refused import Refused
from pallas_contracts.catalog import CLI, RESTORE, SPEAKERS, WORKER

HERE = Path(__file__).parent
FOLDER = HERE / "secrets"
TEAM = HERE / "demo-team"
BROKER = ("nats", "*.nats-servers", "localhost", "127.0.0.1")
"""Host names of the broker: in Compose and Kubernetes, of the brokers of a cluster, and on this machine."""
DATABASES = ("team-lifecycle", "library-search", "workspaces")
ACCOUNTS = ("admin", "daedalus-service")


def make_secrets(folder: Path, team: Path = TEAM) -> list[str]:
    """Generate missing secrets, and return their names."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made: list[str] = []

    def kept(name: str, make: Callable[[], str]) -> str:
        if not (folder / name).exists():
            made.append(name)
        return private_files.kept(folder / name, make, READABLE)

    for name in ("log-key", "request-state-key", "secret-key", "postgres-password", "coder-token"):
        kept(name, _random)
    kept("fernet-keys", lambda: Fernet.generate_key().decode())
    redis = kept("redis-password", _random)
    kept("redis-url", lambda: f"redis://:{redis}@redis:6379")
    for service in DATABASES:
        password, name = kept(f"{service}-postgres-password", _random), service.replace("-", "_")
        kept(f"{service}-postgres-url", lambda p=password, n=name: f"postgresql://{n}:{p}@postgres:5432/{n}")
    _of_operators(folder, "admin-password", _random, READABLE)
    for account in ACCOUNTS:
        password = kept(f"{account}-password", _random)
        kept(f"{account}-password-hash", lambda p=password: PasswordHasher().hash(p))
    return [*made, *_configure_broker(folder, team)]


def _of_operators(folder: Path, name: str, make: Callable[[], str], mode: int) -> str:
    """A secret in the folder of operators, with a link to it. One that was beside the others is moved there."""
    link, place = folder / name, folder / "operators" / name
    if link.is_file() and not link.is_symlink():
        private_files.private_folder(place.parent)
        link.rename(place)
    text = private_files.kept(place, make, mode)
    _link(link, place)
    return text


def _configure_broker(folder: Path, team: Path) -> list[str]:
    """Write the broker's configuration, and link the CA and each service's seed. Returns the names of new links."""
    broker = BrokerFolder(folder.parent, containers=True)
    workers = read_workers([[team]], os.environ)
    broker.write_users(workers)
    broker.write_store_key()
    broker.write_tls(BROKER, seen_at=Path("/etc/nats/tls"))
    users = {name: workers[0].user if name == WORKER else name for name in SPEAKERS if name not in (CLI, RESTORE)}
    named = {f"{name}-nats-seed": broker.seeds.path(user) for name, user in users.items()}
    named["nats-ca"] = broker.folder / "tls" / "ca.pem"
    return [name for name, path in named.items() if _link(folder / name, path)]


def _link(link: Path, path: Path) -> bool:
    """Make `link` point to `path`; returns whether that is new."""
    target = path.relative_to(link.parent, walk_up=True)
    if link.is_symlink() and link.readlink() == target:
        return False
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return True


def _random() -> str:
    return secrets.token_hex(32)


if __name__ == "__main__":
    try:
        made = make_secrets(FOLDER, HERE / os.environ.get("PALLAS_TEAM", TEAM))
    except Refused as refused:
        raise SystemExit(f"make secrets: {refused}") from refused
    sys.stdout.write(f"generated {len(made)} secrets in {FOLDER}\n")
