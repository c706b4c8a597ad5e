"""`pallas teams`: teams at team-lifecycle, their JWTs and their workspaces."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import LifecycleUrl, listed, one_or_none, run_as_admin
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.completing import complete_registered_team
from pallas_cli.confirming import Yes, confirm

app = typer.Typer()

Team = Annotated[
    str,
    typer.Argument(
        metavar="TEAM", help="Id or name of the team, as `list` shows it.", autocompletion=complete_registered_team
    ),
]


@listed(app)
def list_teams() -> Callable[..., None]:
    """List teams with their workspaces, deleted teams too."""
    from pallas_cli.admin.teams import show_teams

    return show_teams


@app.command()
def show(team: Team, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one team."""
    from pallas_cli.admin.teams import show_team

    run_as_admin(url, data, partial(show_team, team=team, as_json=as_json))


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Display name.")],
    team: Annotated[
        str | None, typer.Option("--id", metavar="UUID", help="Id of the team. [default: a new one]")
    ] = None,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a team and print its JWT once. An existing team is not changed; exit code 1 if it was deleted."""
    from pallas_cli.admin.teams import create_team

    run_as_admin(url, data, partial(create_team, name=name, team=team, as_json=as_json))


@app.command()
def rotate(
    team: Team,
    yes: Yes = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Give a team a new JWT and print it once. The previous JWT becomes invalid."""
    from pallas_cli.admin.teams import rotate_team

    confirm(f"the current JWT of team {team} becomes invalid", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(rotate_team, team=team, as_json=as_json))


@app.command()
def delete(
    team: Team,
    yes: Yes = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a team. Its JWT becomes invalid, and the team cannot be restored."""
    from pallas_cli.admin.teams import delete_team

    confirm(f"team {team} is deleted", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(delete_team, team=team, as_json=as_json))


@app.command()
def workspaces(
    team: Team,
    workspace: Annotated[list[str] | None, typer.Argument(metavar="WORKSPACE", help="Ids of the workspaces.")] = None,
    none: Annotated[
        bool, typer.Option("--none", help="Pause the team: it can read nothing, and its JWT stays valid.")
    ] = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Replace the workspaces that a team can read. A workspace may have no libraries yet."""
    from pallas_cli.admin.teams import replace_workspaces

    one_or_none(workspace, none=none, what="WORKSPACE...")
    run_as_admin(url, data, partial(replace_workspaces, team=team, workspaces=workspace or (), as_json=as_json))
