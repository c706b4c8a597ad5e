"""`pallas sessions`: browsers that are logged in to the console."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import ConsoleUrl, run_at_console
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page

app = typer.Typer()


@app.command("list")
def list_sessions(
    limit: Limit = None,
    after: After = None,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List sessions: where they were begun, and when they were used last."""
    from pallas_cli.workspaces.sessions import show_sessions

    run_at_console(url, data, partial(show_sessions, page=Page(limit, after), as_json=as_json))


@app.command()
def show(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session, as `list` shows it.")],
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show one session."""
    from pallas_cli.workspaces.sessions import show_session

    run_at_console(url, data, partial(show_session, given=session, as_json=as_json))


@app.command()
def delete(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Id of the session, as `list` shows it. [default: all]")
    ] = None,
    yes: Yes = False,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """End a session, or all of them. Their browsers have to log in again."""
    from pallas_cli.workspaces.sessions import delete_sessions

    confirm("all browsers are logged out" if session is None else "its browser is logged out", yes=yes, as_json=as_json)
    run_at_console(url, data, partial(delete_sessions, given=session, as_json=as_json))
