"""`pallas teams`: teams as the library search knows them, with a JWT each."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import (
    DEFAULT_LIFECYCLE,
    LifecycleUrl,
    Yes,
    confirm,
    one_or_none,
    run_as_admin,
)
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data

app = typer.Typer(no_args_is_help=True, help="Teams as the library search knows them: JWTs, and what they read.")

Team = Annotated[str, typer.Argument(metavar="TEAM", help="The team's id, as `list` shows it.")]


@app.command("list")
def list_teams(url: LifecycleUrl = DEFAULT_LIFECYCLE, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """List teams and the workspaces that they read, deleted teams too."""
    from pallas_cli.admin.teams import show_teams

    run_as_admin(url, data, partial(show_teams, as_json=as_json))


@app.command()
def show(team: Team, url: LifecycleUrl = DEFAULT_LIFECYCLE, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one team."""
    from pallas_cli.admin.teams import show_team

    run_as_admin(url, data, partial(show_team, team=team, as_json=as_json))


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    team: Annotated[str | None, typer.Option("--id", metavar="UUID", help="Its id. Default: a new one.")] = None,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Make a team and print its JWT, once. A known id changes nothing; exit code 1 when that team was deleted."""
    from pallas_cli.admin.teams import create_team

    run_as_admin(url, data, partial(create_team, name=name, team=team, as_json=as_json))


@app.command()
def rotate(
    team: Team,
    yes: Yes = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Give a team another JWT and print it, once; the one before is refused from now on."""
    from pallas_cli.admin.teams import rotate_team

    confirm(f"the JWT that team {team} has is refused from now on", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(rotate_team, team=team, as_json=as_json))


@app.command()
def delete(
    team: Team,
    yes: Yes = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a team: its JWT is refused from now on, and nothing revives it."""
    from pallas_cli.admin.teams import delete_team

    confirm(f"team {team} is deleted", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(delete_team, team=team, as_json=as_json))


@app.command()
def workspaces(
    team: Team,
    workspace: Annotated[
        list[str] | None, typer.Argument(metavar="WORKSPACE...", help="What it reads from now on.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="It reads nothing: it is paused, its JWT stays valid.")] = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Attach a team to these workspaces and no others, whether they have libraries yet or not."""
    from pallas_cli.admin.teams import replace_workspaces

    one_or_none(workspace, none=none, what="WORKSPACE...")
    run_as_admin(url, data, partial(replace_workspaces, team=team, workspaces=workspace or (), as_json=as_json))
