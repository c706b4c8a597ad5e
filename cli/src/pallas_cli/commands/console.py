"""`pallas console`: a link to the console of the platform."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import ConsoleUrl, run_at_console
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data


def console(
    in_browser: Annotated[bool, typer.Option("--open", help="Open the link in a browser.")] = False,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Print a link that logs in to the console once."""
    from pallas_cli.workspaces.login_link import show_link

    run_at_console(url, data, partial(show_link, as_json=as_json, in_browser=in_browser))
