"""Teams as the library search knows them: a JWT each, and the workspaces that it reads."""

import sys
from collections.abc import Sequence
from uuid import uuid4

import typer

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, listed, tell, tell_once, tell_rows


def show_teams(api: AdminApi, *, as_json: bool) -> None:
    """Print all teams, deleted ones too."""
    columns: Columns = {
        "team": lambda row: row["id"],
        "name": lambda row: row["name"],
        "state": _state,
        "workspaces": lambda row: listed(row["workspace_ids"]),
    }
    tell_rows(api.rows("teams"), columns, nothing="There are no teams.", as_json=as_json)


def show_team(api: AdminApi, team: str, *, as_json: bool) -> None:
    """Print one team; never its JWT."""
    row: Row = api.get("teams", team)
    told = (
        f"{row['id']} {row['name']}: {_state(row)}\n  workspaces: {listed(row['workspace_ids'])}\n"
        f"  active jti: {row['active_jti']}"
    )
    tell(row, told, as_json=as_json)


def create_team(api: AdminApi, name: str, *, team: str | None, as_json: bool) -> None:
    """Make a team and print its JWT. One that is there has none to show.

    Raises:
        Exit: with code 1, when it is there and was deleted.
    """
    row = api.make("POST", "teams", body={"id": team or str(uuid4()), "name": name})
    if row["new"]:
        tell_once(row, row["jwt"], f"This is the JWT of team {row['id']}.", as_json=as_json)
        return
    if as_json:
        tell(row, "", as_json=True)
    else:
        print(f"Team {row['id']} was there already: {_state(row)}. {_instead(row)}", file=sys.stderr)
    if not row["active"]:
        raise typer.Exit(1)


def rotate_team(api: AdminApi, team: str, *, as_json: bool) -> None:
    """Give a team another JWT, and print it."""
    rotated = api.change("POST", "teams", team, "rotate")
    told = f"This is the JWT of team {team}; the one before is refused from now on."
    tell_once({"id": team, **rotated}, rotated["jwt"], told, as_json=as_json)


def delete_team(api: AdminApi, team: str, *, as_json: bool) -> None:
    """Make a team inactive."""
    api.change("DELETE", "teams", team)
    tell({"id": team, "deleted": True}, f"Team {team} is deleted: its JWT is refused from now on.", as_json=as_json)


def replace_workspaces(api: AdminApi, team: str, *, workspaces: Sequence[str], as_json: bool) -> None:
    """Attach a team to these workspaces and no others."""
    answer = api.change("PUT", "teams", team, "workspaces", body={"workspace_ids": list(workspaces)})
    reads = f"workspaces {listed(answer['workspace_ids'])}" if workspaces else "nothing: it is paused"
    tell({"id": team, **answer}, f"Team {team} reads {reads}.", as_json=as_json)


def _state(row: Row) -> str:
    return "active" if row["active"] else "deleted"


def _instead(row: Row) -> str:
    if row["active"]:
        return f"Its JWT cannot be shown again; `pallas teams rotate {row['id']}` makes another one."
    return "Nothing revives it; a new team needs another id."
