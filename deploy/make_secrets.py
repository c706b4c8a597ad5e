"""Makes the secrets of compose and Kubernetes: a file each in deploy/secrets, once; what is there is left as it is.

The folder is for its owner only. The files in it can be read by everybody, because a container sees the file alone and
its user is another one. The passwords of people are there beside the hashes that the services get.
"""

import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from argon2 import PasswordHasher
from cryptography.fernet import Fernet

FOLDER = Path(__file__).parent / "secrets"
DATABASES = ("team-lifecycle", "library-search")
ACCOUNTS = ("admin", "daedalus-service")


def make_secrets(folder: Path) -> list[str]:
    """Make what is missing, and return the names of it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made: list[str] = []

    def kept(name: str, make: Callable[[], str]) -> str:
        path = folder / name
        if not path.exists():
            path.write_text(make(), "ascii")
            path.chmod(0o444)
            made.append(name)
        return path.read_text("ascii")

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
    return made


def _random() -> str:
    return secrets.token_hex(32)


if __name__ == "__main__":
    made = make_secrets(FOLDER)
    sys.stdout.write(f"{len(made)} made in {FOLDER}\n")
