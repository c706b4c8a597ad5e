"""Secrets that a command needs: from the environment, or from the data folder of `pallas up`."""

import os
from pathlib import Path

from pallas_cli.refused import Refused


def find_secret(variable: str, data: Path, name: str, *, need: str) -> str:
    """The value of `variable`, or what `pallas up` keeps under `name` in its data folder.

    Raises:
        Refused: there is neither; `need` says what it would be for.
    """
    if given := os.environ.get(variable):
        return given
    path = data / "secrets" / name
    try:
        kept = path.read_text("ascii").strip()
    except OSError:
        kept = ""
    if not kept:
        raise Refused(f"{need}: set {variable}, or name the folder of `pallas up` with --data ({path} is not there)")
    return kept


def find_admin_password(data: Path) -> str:
    """The password of the account `admin`, of team-lifecycle and of the library search.

    Raises:
        Refused: there is none.
    """
    return find_secret("PALLAS_ADMIN_PASSWORD", data, "admin-password", need="the password of `admin` is needed")
