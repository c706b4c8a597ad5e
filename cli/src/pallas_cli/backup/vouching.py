"""Says whether a manifest is unchanged: by an HMAC of its bytes for each key that was at hand when it was made.

Encryption does not say it, since the public key of backups is no secret: whoever can write to the store can make a file
that opens. The keys of the installation are secret, are never in a backup, and have to be there for a restore anyway.
"""

import hmac
import json
from pathlib import Path

from pydantic import TypeAdapter

from pallas_cli.backup.keys import derive, keys_here
from pallas_cli.backup.manifest import CODES, MANIFEST, Manifest
from pallas_cli.backup.sealing import Damaged
from pallas_cli.backup.store import Store

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
