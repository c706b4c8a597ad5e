"""Secrets of commands: from a variable, a file that it or the context names, or the data folder of `pallas up`."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_cli.contexts import kept_in, setting
from pallas_cli.refused import WrongUsage

if TYPE_CHECKING:
    from pallas_contracts.keyed import LogKey

_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The syntax of RFC 6750. An HTTP client that refuses another header value may print it."""


def find_secret(variable: str, data: Path, name: str, *, need: str) -> str:
    """The value of `variable`, the secret `name` of the context, or that in the data folder of `pallas up`.

    Raises:
        Refused: both are missing; `need` begins the message.
    """
    found, path = look_up_secret(variable, kept_in(data, ""), name)
    if found:
        return found
    if path is None:
        raise WrongUsage(f"{need}: set {variable}, or --{name}-file of the context")
    raise WrongUsage(
        f"{need}: set {variable}, or pass the data folder of `pallas up` with --data ({path} does not exist)"
    )


def look_up_secret(variable: str, folder: Path | None, name: str) -> tuple[str, Path | None]:
    """The value of `variable`, of the file that the context names, or of that in `folder`; empty if none has it.

    With it comes the file, if one was looked for.
    """
    if given := given_secret(variable):
        return given.strip(), None
    named = setting(f"{name.replace('-', '_')}_file")
    path = Path(named) if named else folder / name if folder is not None else None
    try:
        return ("" if path is None else path.read_text("utf-8").strip()), path
    except OSError:
        return "", path


def given_secret(variable: str) -> str:
    """The value of a variable, or of the file that `VARIABLE_FILE` names; empty if neither is set."""
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import value_of

    try:
        return value_of(os.environ, variable)
    except Rejected as error:
        raise WrongUsage(f"{variable}: {error.message}") from error


def find_token(option: str | None) -> str | None:
    """The bearer token of `--token`, of `PALLAS_TOKEN`, or of the context; None if none is set.

    Raises:
        Refused: it is not a valid bearer token. The message does not repeat it.
    """
    token, source = _token(option)
    if option is None and not token:
        return None
    if not _BEARER.fullmatch(token):
        raise WrongUsage(f"{source}: not a valid bearer token: use one or more of the characters A-Z a-z 0-9 -._~+/=")
    return token


def _token(option: str | None) -> tuple[str, str]:
    """The token, and what an error calls its source."""
    if option is not None:
        return option, "--token"
    if given := given_secret("PALLAS_TOKEN"):
        return given, "PALLAS_TOKEN"
    path = setting("token_file")
    if path is None:
        return "", ""
    try:
        return Path(path).read_text("utf-8").strip(), path
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"the token of the context: {path} cannot be read ({type(error).__name__})") from None


def find_admin_password(data: Path) -> str:
    """The password of the account `admin` of team-lifecycle and library-search.

    Raises:
        Refused: it is missing.
    """
    return find_secret("PALLAS_ADMIN_PASSWORD", data, "admin-password", need="the password of `admin` is missing")


def find_log_key(data: Path) -> "LogKey":
    """The platform's log key, with which ids of conversations and tasks are found in the log.

    Raises:
        Refused: it is missing.
    """
    from pallas_contracts.keyed import LogKey

    need = "the log key is missing, which is needed to find a conversation or a task"
    return LogKey(find_secret("PALLAS_LOG_KEY", data, "log-key", need=need))
