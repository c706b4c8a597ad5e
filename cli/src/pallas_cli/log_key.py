"""The key that the platform hashes conversation ids with, so that a conversation can be looked up in the log."""

import os
from pathlib import Path

from pallas_cli.refused import Refused
from pallas_contracts.keyed import LogKey

VARIABLE = "PALLAS_LOG_KEY"


def find_log_key(data: Path) -> LogKey:
    """The platform's log key: `PALLAS_LOG_KEY`, or the one that `pallas up` keeps in its data folder.

    Raises:
        Refused: there is neither.
    """
    if given := os.environ.get(VARIABLE):
        return LogKey(given)
    path = data / "secrets" / "log-key"
    try:
        kept = path.read_text("ascii").strip()
    except OSError:
        kept = ""
    if not kept:
        raise Refused(
            f"a conversation is found by its hash, which needs the platform's log key: set {VARIABLE}, "
            f"or name the folder of `pallas up` with --data ({path} is not there)"
        )
    return LogKey(kept)
