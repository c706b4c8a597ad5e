"""The keys of backups, and the keys that a backup needs.

The public key of a backup makes it, and its identity opens it, both in the format of age. The keys of the installation
are never in a backup: fingerprints say whether a key is the same, and an HMAC of the manifest for each key that was at
hand says whether the manifest is unchanged. Encryption does not say it, since the public key of backups is no secret:
whoever can write to the store can make a file that opens.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyrage
from pydantic import TypeAdapter
from pyrage import x25519

from pallas_cli.backup.sealing import Damaged
from pallas_cli.backup.store import CODES, MANIFEST, Manifest, Store
from pallas_cli.kept_secrets import look_up_secret
from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused, WrongUsage

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
    return {name: key for name in KEYS if (key := look_up_secret(KEYS[name], folder, name)[0])}


def derive(key: str, salt: str) -> bytes:
    """16 bytes of a key. Slow on purpose: a key that a person chose must not be found by trying."""
    return hashlib.scrypt(key.encode(), salt=salt.encode(), n=2**14, r=8, p=1, dklen=16)


def make_identity(path: Path) -> str:
    """Write a new identity to a file that does not exist, and return its public key.

    Raises:
        Refused: the file exists, or cannot be written.
    """
    if path.exists():
        raise Refused(f"{path} exists: backups that were made for it could not be opened without it", word="exists")
    identity = x25519.Identity.generate()
    public = str(identity.to_public())
    try:
        write_atomically(path, f"# public key: {public}\n{identity}\n")
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error
    return public


def read_identities(path: Path | None) -> list[x25519.Identity]:
    """The identities in a file, as age-keygen and `pallas backup key` write it. None: there is none.

    Raises:
        Refused: the file cannot be read, or has no identity.
    """
    if path is None:
        return []
    try:
        lines = path.read_text("utf-8").splitlines()
        found = [x25519.Identity.from_str(line.strip()) for line in lines if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"the identity {path} cannot be read: {type(error).__name__}") from error
    except pyrage.IdentityError as error:
        raise WrongUsage(f"{path} is no identity of age") from error
    if not found:
        raise WrongUsage(f"{path} has no identity")
    return found


def read_recipients(given: Sequence[str]) -> list[x25519.Recipient]:
    """The public keys to which a backup is encrypted.

    Raises:
        Refused: there is none, or one is malformed.
    """
    words = [word for each in given for word in each.replace(",", " ").split()]
    if not words:
        raise WrongUsage(
            "pass the public key of whoever may open the backup with --recipient; `pallas backup key` makes one"
        )
    try:
        return [x25519.Recipient.from_str(word) for word in words]
    except pyrage.RecipientError as error:
        raise WrongUsage("--recipient: not a public key of age (age1...)") from error


_CODES = TypeAdapter(dict[str, str])


def make_codes(backup: str, text: bytes, folder: Path | None) -> bytes:
    """The codes of a manifest by the names of the keys that are here, as JSON."""
    return json.dumps({name: _code(key, backup, text) for name, key in keys_here(folder).items()}).encode()


def who_vouches(store: Store, manifest: Manifest, folder: Path | None) -> list[str]:
    """The keys here that show that the manifest is unchanged. Empty: nobody can say it.

    Raises:
        Damaged: the manifest was changed.
        Refused: the store cannot be read.
    """
    path = f"{manifest.id}/{MANIFEST}"
    text, codes = store.read(path) or b"", _codes(store, manifest.id)
    found = list[str]()
    for name, key in keys_here(folder).items():
        if hmac.compare_digest(codes.get(name, "").encode(), _code(key, manifest.id, text).encode()):
            found.append(name)
        elif name in codes and manifest.keys.get(name) == derive(key, manifest.id).hex():
            raise Damaged(path, f"it was changed after the backup was made, as the key {name} shows")
    if found and Manifest.model_validate_json(text) != manifest:
        raise Damaged(path, "it has just been replaced")
    return found


def _codes(store: Store, backup: str) -> dict[str, str]:
    path = f"{backup}/{CODES}"
    try:
        return _CODES.validate_json(store.read(path) or b"{}")
    except ValueError as error:
        raise Damaged(path, "it has no codes of keys") from error


def _code(key: str, backup: str, text: bytes) -> str:
    return hmac.digest(derive(key, f"{backup} {MANIFEST}"), text, "sha256").hex()
