"""The key with which the platform hashes the ids of conversations and tasks. Commands find these in the log with it."""

from pathlib import Path

from pallas_cli.kept_secrets import find_secret
from pallas_contracts.keyed import LogKey

VARIABLE = "PALLAS_LOG_KEY"
_NEED = "the log key is missing, which is needed to find a conversation or a task"


def find_log_key(data: Path) -> LogKey:
    """The platform's log key: `PALLAS_LOG_KEY`, or the one in the data folder of `pallas up`.

    Raises:
        Refused: both are missing.
    """
    return LogKey(find_secret(VARIABLE, data, "log-key", need=_NEED))
