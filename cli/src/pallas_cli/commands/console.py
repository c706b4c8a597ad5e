"""`pallas console`: a link to the console of the platform."""

from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.command import command
from pallas_cli.kept_addresses import help_of

app = typer.Typer()

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="PALLAS_WORKSPACES_URL", help=help_of("Address of the console.", "workspaces")),
]


@command(app)
def console(
    in_browser: Annotated[bool, typer.Option("--open", help="Open the link in a browser.")] = False,
    url: Url = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Print a link that logs in to the console once."""
    from pallas_cli.rest.console import CONSOLE, log_in

    CONSOLE.run(log_in, {"url": url, "data": data, "as_json": as_json, "in_browser": in_browser})
