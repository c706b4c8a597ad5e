"""Secrets that a command needs: from the environment, a file that it names, or the data folder of `pallas up`."""

import os
import re
from pathlib import Path

from pallas_cli.refused import Refused

_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750. Whatever else is put into a header may be printed by whoever refuses it."""


def find_secret(variable: str, data: Path, name: str, *, need: str) -> str:
    """The value of `variable`, or what `pallas up` keeps under `name` in its data folder.

    Raises:
        Refused: there is neither; `need` says what it would be for.
    """
    if given := _given(variable):
        return given
    path = data / "secrets" / name
    try:
        kept = path.read_text("ascii").strip()
    except OSError:
        kept = ""
    if not kept:
        raise Refused(f"{need}: set {variable}, or name the folder of `pallas up` with --data ({path} is not there)")
    return kept


def _given(variable: str) -> str:
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import value_of

    try:
        return value_of(os.environ, variable)
    except Rejected as error:
        raise Refused(f"{variable}: {error.message}") from error


def find_token(option: str | None) -> str | None:
    """The bearer of the option `--token`, else that of `PALLAS_TOKEN`, if there is one.

    Raises:
        Refused: it cannot be a bearer, which is not repeated.
    """
    token = _given("PALLAS_TOKEN") if option is None else option
    if option is None and not token:
        return None
    if not _BEARER.fullmatch(token):
        source = "PALLAS_TOKEN" if option is None else "--token"
        raise Refused(f"{source}: this is no bearer: it is empty, or has other characters than A-Z a-z 0-9 -._~+/=")
    return token


def find_admin_password(data: Path) -> str:
    """The password of the account `admin`, of team-lifecycle and of the library search.

    Raises:
        Refused: there is none.
    """
    return find_secret("PALLAS_ADMIN_PASSWORD", data, "admin-password", need="the password of `admin` is needed")


def find_service_password(data: Path) -> str:
    """The password of the account `daedalus-service`, of team-lifecycle.

    Raises:
        Refused: there is none.
    """
    need = "the password of `daedalus-service` is needed"
    return find_secret("PALLAS_SERVICE_PASSWORD", data, "daedalus-service-password", need=need)
