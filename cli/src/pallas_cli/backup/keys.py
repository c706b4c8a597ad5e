"""Fingerprints of the keys that a backup needs: they say whether a key is the same, and nothing else about it.

The keys themselves are never in a backup. Keep them, and the identity that opens backups, somewhere else.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pallas_cli.contexts import setting
from pallas_cli.refused import WrongUsage

KEYS = {"fernet-keys": "PALLAS_FERNET_KEYS", "secret-key": "PALLAS_SECRET_KEY", "log-key": "PALLAS_LOG_KEY"}
"""The variable of each key, by the name of its file in the folder of secrets."""

LOST_WITHOUT = {
    "fernet-keys": "the signing keys in team_lifecycle cannot be opened, so no team's JWT is accepted",
    "secret-key": "the JWTs of teams in workspaces cannot be opened",
    "log-key": "a call that is repeated with its idempotency key is not recognised, and is executed again",
}


def fingerprints(backup: str, folder: Path | None) -> dict[str, str | None]:
    """The fingerprint of each key, None for one that is not here. They differ from backup to backup.

    A key comes from its variable, from the file that the context names, or from `folder`.

    Raises:
        Refused: a variable is invalid.
    """
    here = keys_here(folder)
    return {name: derive(here[name], backup).hex() if name in here else None for name in KEYS}


def differences(backup: str, kept: Mapping[str, str | None], folder: Path | None) -> Iterator[str]:
    """What is wrong with the keys here: a sentence for each key of the backup that is missing or another one."""
    here = fingerprints(backup, folder)
    for name, wanted in kept.items():
        if wanted is None or name not in KEYS or here[name] == wanted:
            continue
        state = "is missing" if here[name] is None else "is another one than at the backup"
        place = f"{folder / name} (or {KEYS[name]})" if folder is not None else KEYS[name]
        yield f"{place} {state}: {LOST_WITHOUT[name]}"


def keys_here(folder: Path | None) -> dict[str, str]:
    """The keys that are here, by name.

    Raises:
        Refused: a variable is invalid.
    """
    return {name: key for name in KEYS if (key := _find(name, folder))}


def derive(key: str, salt: str) -> bytes:
    """16 bytes of a key. Slow on purpose: a key that a person chose must not be found by trying."""
    return hashlib.scrypt(key.encode(), salt=salt.encode(), n=2**14, r=8, p=1, dklen=16)


def _find(name: str, folder: Path | None) -> str:
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import value_of

    try:
        if given := value_of(os.environ, KEYS[name]):
            return given.strip()
    except Rejected as error:
        raise WrongUsage(f"{KEYS[name]}: {error.message}") from error
    named = setting(f"{name.replace('-', '_')}_file")
    path = Path(named) if named else folder / name if folder is not None else None
    try:
        return "" if path is None else path.read_text("utf-8").strip()
    except OSError:
        return ""
