"""The keys of backups, in the format of age: the public key makes backups, the identity opens them."""

from collections.abc import Sequence
from pathlib import Path

import pyrage
from pyrage import x25519

from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused, WrongUsage


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
