"""Secrets of commands: from a variable, a file that a variable names, or the data folder of `pallas up`."""

import os
import re
from pathlib import Path

from pallas_cli.refused import WrongUsage

_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The syntax of RFC 6750. An HTTP client that refuses another header value may print it."""


def find_secret(variable: str, data: Path, name: str, *, need: str) -> str:
    """The value of `variable`, or the secret `name` in the data folder of `pallas up`.

    Raises:
        Refused: both are missing; `need` begins the message.
    """
    if given := _given(variable):
        return given
    path = data / "secrets" / name
    try:
        kept = path.read_text("ascii").strip()
    except OSError:
        kept = ""
    if not kept:
        raise WrongUsage(
            f"{need}: set {variable}, or pass the data folder of `pallas up` with --data ({path} does not exist)"
        )
    return kept


def _given(variable: str) -> str:
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import value_of

    try:
        return value_of(os.environ, variable)
    except Rejected as error:
        raise WrongUsage(f"{variable}: {error.message}") from error


def find_token(option: str | None) -> str | None:
    """The bearer token of `--token`, or else of `PALLAS_TOKEN`; None if neither is set.

    Raises:
        Refused: it is not a valid bearer token. The message does not repeat it.
    """
    token = _given("PALLAS_TOKEN") if option is None else option
    if option is None and not token:
        return None
    if not _BEARER.fullmatch(token):
        source = "PALLAS_TOKEN" if option is None else "--token"
        raise WrongUsage(f"{source}: not a valid bearer token: use one or more of the characters A-Z a-z 0-9 -._~+/=")
    return token


def find_admin_password(data: Path) -> str:
    """The password of the account `admin` of team-lifecycle and library-search.

    Raises:
        Refused: it is missing.
    """
    return find_secret("PALLAS_ADMIN_PASSWORD", data, "admin-password", need="the password of `admin` is missing")
