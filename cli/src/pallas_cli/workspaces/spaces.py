"""Workspaces: the teams attached to them, and their agents."""

from collections.abc import Sequence

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, date, listed, print_answer, print_rows
from pallas_cli.paging import WHOLE, Page
from pallas_cli.plain_text import plain_line, print_plain
from pallas_cli.workspaces.find import find_instance, find_workspace, instances, workspaces


def show_workspaces(api: AdminApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print all workspaces with their teams."""
    rows = page.cut(workspaces(api), lambda row: row["id"])
    names = {row["id"]: row["name"] for row in instances(api)} if rows and not as_json else {}
    columns: Columns = {
        "workspace": lambda row: row["id"],
        "name": lambda row: row["name"],
        "teams": lambda row: listed(sorted(names.get(it, it) for it in row["instance_ids"])),
        "conversations": lambda row: str(row["conversations"]),
        "since": lambda row: date(row["created_at"]),
    }
    print_rows(rows, columns, nothing="There are no workspaces.", as_json=as_json)


def show_workspace(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Print one workspace with the agents that can be picked in it."""
    workspace = find_workspace(api, given)
    picker = api.get("workspaces", workspace["id"], "agents")
    lines = [f"{workspace['id']} {workspace['name']}", f"  conversations: {workspace['conversations']}"]
    lines += [f"  {agent['label']}: {_health(agent['health'])}" for agent in picker["agents"]]
    if not picker["agents"] and picker["empty"]:
        lines.append(f"  {picker['empty']['text']}")
    text = "\n".join(map(plain_line, lines))
    print_answer({**workspace, "agents": picker["agents"]}, text, as_json=as_json)


def create_workspace(api: AdminApi, name: str, *, workspace: str | None, as_json: bool) -> None:
    """Create a workspace."""
    body = {"name": name} | ({"id": workspace} if workspace else {})
    row = api.change("POST", "workspaces", body=body)
    print_answer(row, f"Created workspace {row['id']}. No teams are attached to it.", as_json=as_json)


def delete_workspace(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Delete a workspace with its conversations."""
    workspace = find_workspace(api, given)["id"]
    api.change("DELETE", "workspaces", workspace)
    print_answer({"id": workspace, "deleted": True}, f"Deleted workspace {workspace}.", as_json=as_json)


def attach_teams(api: AdminApi, given: str, teams: Sequence[str], *, as_json: bool) -> None:
    """Attach teams to a workspace, beside those that are."""
    _replace_teams(api, given, teams, attach=True, as_json=as_json)


def detach_teams(api: AdminApi, given: str, teams: Sequence[str], *, as_json: bool) -> None:
    """Detach teams from a workspace."""
    _replace_teams(api, given, teams, attach=False, as_json=as_json)


def _replace_teams(api: AdminApi, given: str, teams: Sequence[str], *, attach: bool, as_json: bool) -> None:
    workspace = find_workspace(api, given)["id"]
    wanted = [find_instance(api, team)["id"] for team in teams]
    for instance in wanted:
        api.change("POST" if attach else "DELETE", "workspaces", workspace, "pallas", instance)
    attached: list[Row] = api.get("workspaces", workspace, "pallas")["instances"]
    names = listed([plain_line(row["name"]) for row in attached])
    print_answer({"id": workspace, "instances": attached}, f"Workspace {workspace} has: {names}.", as_json=as_json)
    for row in attached:
        if row["warning"] and not as_json:
            print_plain(plain_line(f"{row['name']}: {row['warning']}"), err=True)


def _health(health: Row) -> str:
    return f"{health['status']}, {health['message']}" if health["message"] else health["status"]
