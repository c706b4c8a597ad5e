"""The way from a command to a running platform: the admin API of team-lifecycle."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from pallas_cli.admin.api import AdminApi

DEFAULT_LIFECYCLE = "http://127.0.0.1:23066"

LifecycleUrl = Annotated[
    str, typer.Option("--url", envvar="PALLAS_TEAM_LIFECYCLE_URL", help="Address of team-lifecycle.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking; it cannot be undone.")]


def run_as_admin(url: str, data: Path, work: "Callable[[AdminApi], None]") -> None:
    """Run `work` as the account `admin`.

    Raises:
        Refused: its password is not known; whatever `work` refuses.
    """
    from pallas_cli.admin.api import admin_api
    from pallas_cli.kept_secrets import find_admin_password

    with admin_api(url, find_admin_password(data)) as api:
        work(api)


def one_or_none(given: object, *, none: bool, what: str) -> None:
    """Go on when something was named, or `--none` was said: leaving everything out is never an accident.

    Raises:
        Refused: neither or both.
    """
    if bool(given) == none:
        raise Refused(f"name {what}, or say --none")


def confirm(what: str, *, yes: bool, as_json: bool) -> None:
    """Go on when it was said in advance, or is said now, that this is wanted.

    Raises:
        Refused: nobody can be asked.
        Abort: the answer is no.
    """
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise Refused(f"{what}, and that cannot be undone: --yes does it")
    typer.echo(f"{what}, and that cannot be undone.", err=True)
    typer.confirm("Go on?", abort=True, err=True)
