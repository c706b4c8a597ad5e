"""Runs a command as the admin of team-lifecycle, or of the console."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.paging import After, Limit, Page
from pallas_cli.refused import WrongUsage
from pallas_cli.waiting import shown

if TYPE_CHECKING:
    from pallas_cli.admin.api import AdminApi

LIFECYCLE_HELP = help_of("Address of team-lifecycle.", "team_lifecycle")

CONSOLE_HELP = help_of("Address of the console.", "workspaces")

ConsoleUrl = Annotated[str | None, typer.Option("--url", envvar="PALLAS_WORKSPACES_URL", help=CONSOLE_HELP)]
LifecycleUrl = Annotated[str | None, typer.Option("--url", envvar="PALLAS_TEAM_LIFECYCLE_URL", help=LIFECYCLE_HELP)]


def run_as_admin(url: str | None, data: Path, work: "Callable[[AdminApi], None]") -> None:
    """Run `work` with the admin API at `url`, or of the stack in `data`, as the account `admin`.

    Raises:
        Refused: the address or the admin password is missing, or `work` raises it.
    """
    from pallas_cli.admin.api import admin_api
    from pallas_cli.kept_secrets import find_admin_password

    where, password = find_address(url, data, "team_lifecycle"), find_admin_password(data)
    with shown("asking team-lifecycle"), admin_api(where, password) as api:
        work(api)


def run_at_console(url: str | None, data: Path, work: "Callable[[AdminApi], None]") -> None:
    """The same with the API of the console.

    Raises:
        Refused: the address or the admin password is missing, or `work` raises it.
    """
    from pallas_cli.admin.api import admin_api
    from pallas_cli.kept_secrets import find_admin_password

    where, password = find_address(url, data, "workspaces"), find_admin_password(data)
    with shown("asking the console"), admin_api(where, password, service="the console", root="api/v1") as api:
        work(api)


def listed(app: typer.Typer) -> "Callable[[Callable[[], Callable[..., None]]], None]":
    """Make the command `list`. The decorated function has its help, and returns what prints a page.

    That is called with the API, `page` and `as_json`. It is imported only when the command runs.
    """

    def add(load: "Callable[[], Callable[..., None]]") -> None:
        @app.command("list", help=load.__doc__)
        def list_all(
            limit: Limit = None,
            after: After = None,
            url: LifecycleUrl = None,
            data: Data = DEFAULT_DATA,
            as_json: AsJson = False,
        ) -> None:
            run_as_admin(url, data, partial(load(), page=Page(limit, after), as_json=as_json))

    return add


def one_or_none(given: object, *, none: bool, what: str) -> None:
    """Check that either a value or `--none` was passed, so that an empty list is never an accident.

    Raises:
        Refused: neither or both were passed.
    """
    if bool(given) == none:
        raise WrongUsage(f"name {what}, or pass --none")
