"""The private key with which operators open what failed turns were asked. It is made here, and stays with them."""

from pathlib import Path

from pallas_bus.turnlog.content.sealed import OpenKey, new_open_key, open_key, seal_key_of
from pallas_cli.kept_secrets import find_secret
from pallas_cli.private_files import kept
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.errors import Rejected

VARIABLE = "PALLAS_KEEP_KEY"
NAME = "keep-key"
_NEED = "the key is missing that opens what failed turns were asked"


def find_keep_key(data: Path) -> OpenKey:
    """The key of `PALLAS_KEEP_KEY`, or the one in the data folder of `pallas up`.

    Raises:
        Refused: both are missing, or it is not a key.
    """
    return _parsed(find_secret(VARIABLE, data, NAME, need=_NEED))


def keep_key_if_any(data: Path) -> OpenKey | None:
    """The same; None if both are missing.

    Raises:
        Refused: it is not a key.
    """
    try:
        text = find_secret(VARIABLE, data, NAME, need=_NEED)
    except Refused:
        return None
    return _parsed(text)


def _parsed(text: str) -> OpenKey:
    try:
        return open_key(text)
    except Rejected as error:
        raise WrongUsage(f"{VARIABLE}: {error.message}") from error


def kept_seal_key(data: Path) -> str:
    """The public key of the data folder, whose private key is generated unless it exists."""
    text = kept(data / "secrets" / NAME, new_open_key)
    return seal_key_of(open_key(text.strip()))
