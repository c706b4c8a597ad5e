"""Teams at team-lifecycle: their JWTs and workspaces."""

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID, uuid4

import typer

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.by_name import find_row
from pallas_cli.admin.output import Columns, listed, print_answer, print_rows, print_secret
from pallas_cli.paging import WHOLE, Page
from pallas_cli.plain_text import print_plain

_COLUMNS: Columns = {
    "team": lambda row: row["id"],
    "name": lambda row: row["name"],
    "state": lambda row: _state(row),
    "workspaces": lambda row: listed(row["workspace_ids"]),
}


def show_teams(api: AdminApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print all teams, deleted ones too."""
    print_rows(api.rows("teams", page=page), _COLUMNS, nothing="There are no teams.", as_json=as_json)


def show_team(api: AdminApi, team: str, *, as_json: bool) -> None:
    """Print one team, without its JWT."""
    row: Row = api.get("teams", _id_of(api, team))
    text = (
        f"{row['id']} {row['name']}: {_state(row)}\n  workspaces: {listed(row['workspace_ids'])}\n"
        f"  active jti: {row['active_jti']}"
    )
    print_answer(row, text, as_json=as_json)


def create_team(api: AdminApi, name: str, *, team: str | None, as_json: bool) -> None:
    """Create a team and print its JWT. The JWT of an existing team cannot be shown.

    Raises:
        Exit: with code 1, if the team exists and was deleted.
    """
    row = api.make("POST", "teams", body={"id": team or str(uuid4()), "name": name})
    if row["new"]:
        print_secret(row, row["jwt"], f"This is the JWT of team {row['id']}.", as_json=as_json)
        return
    if as_json:
        print_answer(row, "", as_json=True)
    else:
        print_plain(f"Team {row['id']} already exists: {_state(row)}. {_advice(row)}", err=True)
    if not row["active"]:
        raise typer.Exit(1)


def rotate_team(api: AdminApi, team: str, *, as_json: bool) -> None:
    """Give a team a new JWT and print it."""
    team = _id_of(api, team)
    rotated = api.change("POST", "teams", team, "rotate")
    text = f"This is the new JWT of team {team}; the previous one is now invalid."
    print_secret({"id": team, **rotated}, rotated["jwt"], text, as_json=as_json)


def delete_team(api: AdminApi, team: str, *, as_json: bool) -> None:
    """Delete a team."""
    team = _id_of(api, team)
    api.change("DELETE", "teams", team)
    print_answer({"id": team, "deleted": True}, f"Team {team} is deleted: its JWT is now invalid.", as_json=as_json)


def replace_workspaces(api: AdminApi, team: str, *, workspaces: Sequence[str], as_json: bool) -> None:
    """Replace the workspaces that a team can read."""
    team = _id_of(api, team)
    answer = api.change("PUT", "teams", team, "workspaces", body={"workspace_ids": list(workspaces)})
    reads = f"workspaces {listed(answer['workspace_ids'])}" if workspaces else "nothing: it is paused"
    print_answer({"id": team, **answer}, f"Team {team} can read {reads}.", as_json=as_json)


def _id_of(api: AdminApi, given: str) -> str:
    """The id of the team that has this id, or alone has this name and is not deleted."""
    with suppress(ValueError):
        return str(UUID(given))
    return find_row([row for row in api.rows("teams") if row["active"]], given, "team")["id"]


def _state(row: Row) -> str:
    return "active" if row["active"] else "deleted"


def _advice(row: Row) -> str:
    if row["active"]:
        return f"Its JWT cannot be shown again; `pallas teams rotate {row['id']}` makes a new one."
    return "A deleted team cannot be restored; create a team with another id."
