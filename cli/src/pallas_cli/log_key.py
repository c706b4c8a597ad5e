"""The key that the platform hashes conversation ids with, so that a conversation can be looked up in the log."""

from pathlib import Path

from pallas_cli.kept_secrets import find_secret
from pallas_contracts.keyed import LogKey

VARIABLE = "PALLAS_LOG_KEY"
_NEED = "a conversation is found by its hash, which needs the platform's log key"


def find_log_key(data: Path) -> LogKey:
    """The platform's log key: `PALLAS_LOG_KEY`, or the one that `pallas up` keeps in its data folder.

    Raises:
        Refused: there is neither.
    """
    return LogKey(find_secret(VARIABLE, data, "log-key", need=_NEED))
