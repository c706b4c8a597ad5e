"""The commands over the API of the console: workspaces, registered instances, sessions, and links that log in."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep

import typer

from pallas_cli.options import Page, argument, option
from pallas_cli.plain_text import plain_line, print_answer, print_plain
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.rest.client import Api, Row, find_row
from pallas_cli.rest.commands import (
    PAGE,
    Change,
    Columns,
    Given,
    Group,
    List,
    Service,
    date,
    listed,
    print_lines,
    print_rows,
)
from pallas_cli.rest.stanza import reveal_into

CONSOLE = Service("the console", "workspaces", "api/v1")
_SECONDS, _INTERVAL = 10.0, 0.1
"""How long a new team is waited for, and the time between two looks."""


def _instances(api: Api) -> list[Row]:
    return api.get("pallas")["instances"]


def _find_instance(api: Api, given: str) -> Row:
    return find_row(_instances(api), given, "instance")


def _find_workspace(api: Api, given: str) -> Row:
    return find_row(api.get("workspaces")["workspaces"], given, "workspace")


# Workspaces.

WORKSPACES = Group(CONSOLE, {"workspace": _find_workspace})
_WORKSPACE = argument("workspace", "Id of the workspace, or its name.")
_TEAMS = argument("instances", "Ids of instances, or their names.", list[str], metavar="INSTANCE")


def _list_workspaces(api: Api, given: Given) -> None:
    page, as_json = Page(given["limit"], given["after"]), given["as_json"]
    rows = page.cut(api.get("workspaces")["workspaces"], lambda row: row["id"])
    names = {row["id"]: row["name"] for row in _instances(api)} if rows and not as_json else {}
    columns: Columns = {
        "workspace": "id",
        "name": "name",
        "teams": lambda row: listed(sorted(names.get(it, it) for it in row["instance_ids"])),
        "conversations": "conversations",
        "since": date("created_at"),
    }
    print_rows(rows, columns, nothing="There are no workspaces.", as_json=as_json)


def _show_workspace(api: Api, given: Given) -> None:
    workspace = given["row"]
    picker = api.get("workspaces", workspace["id"], "agents")
    lines = [f"{workspace['id']} {workspace['name']}", f"  conversations: {workspace['conversations']}"]
    for agent in picker["agents"]:
        health = agent["health"]
        lines.append(f"  {agent['label']}: {', '.join(filter(None, (health['status'], health['message'])))}")
    if not picker["agents"] and picker["empty"]:
        lines.append(f"  {picker['empty']['text']}")
    print_lines({**workspace, "agents": picker["agents"]}, lines, as_json=given["as_json"])


def _attach(api: Api, given: Given, method: str = "POST") -> None:
    workspace = given["workspace"]
    wanted = [_find_instance(api, team)["id"] for team in given["instances"]]
    for instance in wanted:
        api.change(method, "workspaces", workspace, "pallas", instance)
    attached: list[Row] = api.get("workspaces", workspace, "pallas")["instances"]
    names = listed([plain_line(row["name"]) for row in attached])
    answer = {"id": workspace, "instances": attached}
    print_answer(answer, f"Workspace {workspace} has: {names}.", as_json=given["as_json"])
    for row in attached:
        if row["warning"] and not given["as_json"]:
            print_plain(plain_line(f"{row['name']}: {row['warning']}"), err=True)


def _detach(api: Api, given: Given) -> None:
    _attach(api, given, "DELETE")


WORKSPACES.add("list", "List workspaces with the teams attached to them.", _list_workspaces, *PAGE)
WORKSPACES.add("show", "Show one workspace with its agents and their health.", _show_workspace, _WORKSPACE)
WORKSPACES.add(
    "create",
    "Create a workspace, without teams.",
    Change(
        "POST workspaces",
        lambda _, row: f"Created workspace {row['id']}. No teams are attached to it.",
        body=lambda given: {"name": given["name"]} | ({"id": given["id"]} if given["id"] else {}),
    ),
    argument("name", "Display name."),
    option("id", "Id, which libraries name as their workspace. [default: a new one]", metavar="ID"),
)
WORKSPACES.add(
    "delete",
    "Delete a workspace with its conversations. Teams that were attached lose its libraries.",
    Change(
        "DELETE workspaces/{workspace}", "Deleted workspace {workspace}.", answer={"id": "{workspace}", "deleted": True}
    ),
    _WORKSPACE,
    sure="workspace {workspace} and its conversations are deleted",
)
WORKSPACES.add(
    "attach",
    "Attach teams to a workspace. They can read its libraries, and their agents can be picked in it.",
    _attach,
    _WORKSPACE,
    _TEAMS,
)
WORKSPACES.add("detach", "Detach teams from a workspace.", _detach, _WORKSPACE, _TEAMS)

# Instances.

INSTANCES = Group(CONSOLE, {"instance": _find_instance})
_INSTANCE = argument("instance", "Id of the instance, or its name.")
_TOKEN_FILE = option(
    "token_file", "File with the bearer token that its agents want.", Path | None, "--agent-token-file", metavar="FILE"
)
_TROUBLES = {"registry not read": "last_fetch_error", "differs at Mnemosyne": "drift"}
_HEADERS = ("team", "instance", "state", "jwt")


def _uncompared(row: Row) -> list[str]:
    """Why the team could not be compared with Mnemosyne at the last try: none, or one."""
    believed: Row = row["believed"] or {}
    return [believed["error"]] if believed.get("error") and row["status"] == "provisioned" else []


_COLUMNS: Columns = {
    "instance": "id",
    "name": "name",
    "team": lambda row: ", not compared: ".join([row["status"] or "-", *_uncompared(row)]),
    "jwt": "jwt",
    "agents": lambda row: str(len(row["agents"])),
    "workspaces": "workspace_ids",
    "registry": "registry_url",
}


def _team(row: Row) -> str:
    state = row["status"] or "not provisioned"
    return f"{state}: {row['status_reason']}" if row["status_reason"] else state


def _print_instance(row: Row, given: Given) -> None:
    lines = [
        f"{row['id']} {row['name']}",
        f"  registry: {row['registry_url']}",
        f"  team: {_team(row)}",
        f"  jwt: {row['jwt']}",
        f"  workspaces: {listed(row['workspace_ids'])}",
    ]
    lines += [f"  {agent['server_id']}: {agent['title']}, at {agent['url']}" for agent in row["agents"]]
    lines += [f"  unusable: {entry['name']}: {entry['reason']}" for entry in row["unusable"]]
    lines += [f"  {what}: {row[name]}" for what, name in _TROUBLES.items() if row[name]]
    lines += [f"  not compared with Mnemosyne: {reason}" for reason in _uncompared(row)]
    print_lines(row, lines, as_json=given["as_json"])


def _wanted(given: Given, **names: str) -> Row:
    """The fields of a request that were given, and the token of the file."""
    body = {name: given[it] for name, it in names.items()} | {"agent_token": _token(given["token_file"])}
    return {name: value for name, value in body.items() if value is not None}


def _token(path: Path | None) -> str | None:
    try:
        return path.read_text("utf-8").strip() if path is not None else None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None


def _create_instance(api: Api, given: Given) -> None:
    """Register a registry, and wait a little until its team is provisioned."""
    made = api.make("POST", "pallas", body=_wanted(given, registry_url="registry", name="name", id="id"))
    new, row = made["new"], _settled(api, made["id"])
    done = "Registered" if new else "Already registered:"
    agents = "1 agent" if len(row["agents"]) == 1 else f"{len(row['agents'])} agents"
    text = f"{done} {row['name']} ({row['id']}) with {agents}. Its team is {_team(row)}."
    print_answer({**row, "new": new}, plain_line(text), as_json=given["as_json"])


def _settled(api: Api, instance: str) -> Row:
    """The instance when its team is provisioned, or has failed, or still neither after a while."""
    until = monotonic() + _SECONDS
    row: Row = api.get("pallas", instance)
    while row["status"] in (None, "pending") and monotonic() < until:
        sleep(_INTERVAL)
        row = api.get("pallas", instance)
    return row


def _show_instance(_api: Api, given: Given) -> None:
    _print_instance(given["row"], given)


def _change_instance(api: Api, given: Given) -> None:
    body = _wanted(given, name="name", registry_url="registry")
    _print_instance(api.change("PATCH", "pallas", given["instance"], body=body), given)


def _refresh_instance(api: Api, given: Given) -> None:
    api.change("POST", "pallas", given["instance"], "refresh")
    _print_instance(api.get("pallas", given["instance"]), given)


def _rotate_instance(api: Api, given: Given) -> None:
    instance = given["instance"]
    api.change("POST", "pallas", instance, "rotate")
    text = f"The team of {instance} has a new JWT; the previous one is now invalid. Reveal it with:"
    text = f"{text}\n  pallas instances reveal {instance}"
    print_answer(api.get("pallas", instance), text, as_json=given["as_json"])


def _reveal_instance(api: Api, given: Given) -> None:
    """Reveal the JWT once: into a file, without showing it, or as text."""
    row, name, as_json = given["row"], plain_line(given["row"]["name"]), given["as_json"]
    if given["into"] is not None:
        file = reveal_into(given["into"], lambda: _revealed(api, row)["stanza"])
        text = plain_line(f"The JWT of {name} is in {file}. It cannot be shown again.")
        print_answer({"id": row["id"], "file": str(file)}, text, as_json=as_json)
        return
    answer = _revealed(api, row)
    print_answer({"id": row["id"], **answer}, answer["stanza"].rstrip("\n"), as_json=as_json)
    if not as_json:
        print_plain(f"This belongs into {answer['file']} of {name}. It cannot be shown again.", err=True)


def _revealed(api: Api, row: Row) -> Row:
    return api.change("POST", "pallas", row["id"], "reveal")


def _provision_teams(api: Api, given: Given) -> None:
    """Provision every team that is not, and print the JWTs that this makes (auth contract, section 9.5).

    Raises:
        Exit: with code 1, if a team could not be provisioned.
    """
    rows = [_provisioned(api, row) for row in _instances(api)]
    if given["as_json"]:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain("There are no instances.")
    else:
        for line in _table([[plain_line(row[name] or "-") for name in _HEADERS] for row in rows]):
            print_plain(line)
    if any(row["failed"] for row in rows):
        raise typer.Exit(1)


def _provisioned(api: Api, row: Row) -> Row:
    """A row of the table. A team that was provisioned before is left alone."""
    done: Row = {"team": row["name"], "instance": row["id"], "state": "provisioned before", "jwt": None}
    if row["status"] == "provisioned":
        return {**done, "failed": False}
    try:
        api.change("POST", "pallas", row["id"], "provision")
        now = _settled(api, row["id"])
        if now["status"] != "provisioned":
            why = f"{now['status'] or 'not provisioned'}: {now['status_reason'] or 'no reason is known'}"
            return {**done, "state": why, "failed": True}
        jwt = _revealed(api, row)["jwt"] if now["jwt"] == "ready" else None
    except Refused as refusal:
        return {**done, "state": f"failed: {refusal}", "failed": True}
    return {**done, "state": "provisioned", "jwt": jwt, "failed": False}


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of equal columns. No cell is cut, because a JWT is copied from here."""
    lines = [_HEADERS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADERS))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


INSTANCES.add(
    "list",
    "List instances with the state of their teams.",
    List("pallas", _COLUMNS, "There are no instances.", whole="instances"),
)
INSTANCES.add("show", "Show one instance with its agents.", _show_instance, _INSTANCE)
INSTANCES.add(
    "create",
    "Create the entry of an instance, and provision its team.",
    _create_instance,
    argument("registry", "Address of its registry, such as http://127.0.0.1:23030/teams/demo for one team."),
    option("name", "Display name. [default: the console derives one]"),
    option("id", "Id of the team, if it is registered. [default: a new one]", metavar="UUID"),
    _TOKEN_FILE,
)
INSTANCES.add(
    "change",
    "Change an instance: name, address, token of its agents.",
    _change_instance,
    _INSTANCE,
    option("name", "New display name."),
    option("registry", "New address of its registry: the team stays the same."),
    _TOKEN_FILE,
)
INSTANCES.add("refresh", "Fetch an instance's registry again, and show its agents.", _refresh_instance, _INSTANCE)
INSTANCES.add(
    "delete",
    "Delete an instance. It is detached from all workspaces, and the JWT of its team becomes invalid.",
    Change(
        "DELETE pallas/{instance}",
        lambda given, _: plain_line(
            f"Deleted instance {given['instance']} ({given['row']['name']}). Mnemosyne is told to delete its team."
        ),
        answer={"id": "{instance}", "deleted": True},
    ),
    _INSTANCE,
    sure="instance {instance} and its team are deleted",
)
INSTANCES.add(
    "rotate",
    "Give the team of an instance a new JWT. It can be revealed once. The previous one becomes invalid.",
    _rotate_instance,
    _INSTANCE,
    sure="the current JWT of instance {instance} becomes invalid",
)
INSTANCES.add(
    "reveal",
    "Reveal the JWT of an instance's team, once. It is YAML as the team's secrets file needs it.",
    _reveal_instance,
    _INSTANCE,
    option(
        "into",
        "Put it into this file, such as the team's fastagent.secrets.yaml, without showing it. "
        "Its other content is kept.",
        Path | None,
        metavar="FILE",
    ),
    sure=lambda given: "" if given["into"] else f"the JWT of instance {given['instance']} is printed, once",
)
INSTANCES.add(
    "provision-teams",
    "Provision the teams of all instances. New JWTs are printed once. Exit code 1 if one cannot be provisioned.",
    _provision_teams,
)

# Sessions of browsers.

SESSIONS = Group(CONSOLE)
_SESSIONS: Columns = {
    "session": "id",
    "begun": "begun_at",
    "used": "used_at",
    "address": "address",
    "browser": "browser",
}


def _show_session(api: Api, given: Given) -> None:
    found = [row for row in api.get("sessions")["sessions"] if row["id"] == given["session"]]
    if not found:
        raise Refused("there is no such session")
    [row] = found
    print_lines(row, [f"{name}: {row[name] or '-'}" for name in row], as_json=given["as_json"])


def _delete_sessions(api: Api, given: Given) -> None:
    session = given["session"]
    api.change("DELETE", "sessions", *([session] if session is not None else []))
    text = f"Session {session} has ended." if session is not None else "All sessions have ended."
    print_answer({"id": session, "deleted": True}, text, as_json=given["as_json"])


SESSIONS.add(
    "list",
    "List sessions: where they were begun, and when they were used last.",
    List("sessions", _SESSIONS, "There are no sessions.", whole="sessions"),
)
SESSIONS.add("show", "Show one session.", _show_session, argument("session", "Id of the session, as `list` shows it."))
SESSIONS.add(
    "delete",
    "End a session, or all of them. Their browsers have to log in again.",
    _delete_sessions,
    argument("session", "Id of the session, as `list` shows it. [default: all]", str | None, default=None),
    sure=lambda given: "its browser is logged out" if given["session"] else "all browsers are logged out",
)


def log_in(api: Api, given: Given) -> None:
    """Print a new link that logs in to the console once, and open it in a browser if wanted.

    Raises:
        Refused: no browser can be started.
    """
    import webbrowser

    link = api.change("POST", "login", "links")
    print_answer(link, link["url"], as_json=given["as_json"])
    if not given["as_json"]:
        until = datetime.fromisoformat(link["expires_at"]).astimezone().strftime("%H:%M")
        print_plain(f"It logs in once, until {until}.", err=True)
    if given["in_browser"] and not webbrowser.open(link["url"]):
        raise Refused("no browser can be started: open the link yourself")
