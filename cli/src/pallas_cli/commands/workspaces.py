"""`pallas workspaces`: workspaces of the console, and the teams attached to them."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import ConsoleUrl, run_at_console
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page

app = typer.Typer()

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Id of the workspace, or its name.")]
Instances = Annotated[list[str], typer.Argument(metavar="INSTANCE", help="Ids of instances, or their names.")]


@app.command("list")
def list_workspaces(
    limit: Limit = None,
    after: After = None,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List workspaces with the teams attached to them."""
    from pallas_cli.workspaces.spaces import show_workspaces

    run_at_console(url, data, partial(show_workspaces, page=Page(limit, after), as_json=as_json))


@app.command()
def show(workspace: Workspace, url: ConsoleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one workspace with its agents and their health."""
    from pallas_cli.workspaces.spaces import show_workspace

    run_at_console(url, data, partial(show_workspace, given=workspace, as_json=as_json))


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Display name.")],
    workspace: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Id, which libraries name as their workspace. [default: a new one]"),
    ] = None,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a workspace, without teams."""
    from pallas_cli.workspaces.spaces import create_workspace

    run_at_console(url, data, partial(create_workspace, name=name, workspace=workspace, as_json=as_json))


@app.command()
def delete(
    workspace: Workspace,
    yes: Yes = False,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a workspace with its conversations. Teams that were attached lose its libraries."""
    from pallas_cli.workspaces.spaces import delete_workspace

    confirm(f"workspace {workspace} and its conversations are deleted", yes=yes, as_json=as_json)
    run_at_console(url, data, partial(delete_workspace, given=workspace, as_json=as_json))


@app.command()
def attach(
    workspace: Workspace,
    instances: Instances,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Attach teams to a workspace. They can read its libraries, and their agents can be picked in it."""
    from pallas_cli.workspaces.spaces import attach_teams

    run_at_console(url, data, partial(attach_teams, given=workspace, teams=instances, as_json=as_json))


@app.command()
def detach(
    workspace: Workspace,
    instances: Instances,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Detach teams from a workspace."""
    from pallas_cli.workspaces.spaces import detach_teams

    run_at_console(url, data, partial(detach_teams, given=workspace, teams=instances, as_json=as_json))
