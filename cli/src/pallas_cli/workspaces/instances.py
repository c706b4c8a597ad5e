"""Registered instances: their agents, and the teams that they are at Mnemosyne."""

from time import monotonic, sleep

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, listed, print_answer, print_rows
from pallas_cli.paging import WHOLE, Page
from pallas_cli.plain_text import plain_line
from pallas_cli.workspaces.find import find_instance, instances

_SECONDS, _INTERVAL = 10.0, 0.1


def show_instances(api: AdminApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print all instances."""
    columns: Columns = {
        "instance": lambda row: row["id"],
        "name": lambda row: row["name"],
        "team": lambda row: ", not compared: ".join([row["status"] or "-", *_uncompared(row)]),
        "jwt": lambda row: row["jwt"],
        "agents": lambda row: str(len(row["agents"])),
        "workspaces": lambda row: listed(row["workspace_ids"]),
        "registry": lambda row: row["registry_url"],
    }
    rows = page.cut(instances(api), lambda row: row["id"])
    print_rows(rows, columns, nothing="There are no instances.", as_json=as_json)


def show_instance(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Print one instance with its agents."""
    row = find_instance(api, given)
    print_answer(row, "\n".join(map(plain_line, _lines(row))), as_json=as_json)


def create_instance(
    api: AdminApi, url: str, *, name: str | None, team: str | None, token: str | None, as_json: bool
) -> None:
    """Register the registry at `url`, and wait a little until its team is provisioned."""
    body = {"registry_url": url, "name": name, "id": team, "agent_token": token}
    row = api.make("POST", "pallas", body={key: value for key, value in body.items() if value is not None})
    new, row = row["new"], _settled(api, row["id"])
    done = "Registered" if new else "Already registered:"
    agents = "1 agent" if len(row["agents"]) == 1 else f"{len(row['agents'])} agents"
    text = f"{done} {row['name']} ({row['id']}) with {agents}. Its team is {_team(row)}."
    print_answer({**row, "new": new}, plain_line(text), as_json=as_json)


def change_instance(
    api: AdminApi, given: str, *, name: str | None, registry: str | None, token: str | None, as_json: bool
) -> None:
    """Rename an instance, move it to another registry, or replace the token for its agents."""
    wanted = {"name": name, "registry_url": registry, "agent_token": token}
    body = {key: value for key, value in wanted.items() if value is not None}
    row = api.change("PATCH", "pallas", find_instance(api, given)["id"], body=body)
    print_answer(row, "\n".join(map(plain_line, _lines(row))), as_json=as_json)


def refresh_instance(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Fetch the registry of an instance again."""
    instance = find_instance(api, given)["id"]
    api.change("POST", "pallas", instance, "refresh")
    row = api.get("pallas", instance)
    print_answer(row, "\n".join(map(plain_line, _lines(row))), as_json=as_json)


def delete_instance(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Delete an instance and its team."""
    row = find_instance(api, given)
    api.change("DELETE", "pallas", row["id"])
    text = plain_line(f"Deleted instance {row['id']} ({row['name']}). Mnemosyne is told to delete its team.")
    print_answer({"id": row["id"], "deleted": True}, text, as_json=as_json)


def rotate_instance(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Give the team of an instance another JWT, which can be revealed once."""
    instance = find_instance(api, given)["id"]
    api.change("POST", "pallas", instance, "rotate")
    text = f"The team of {instance} has a new JWT; the previous one is now invalid. Reveal it with:"
    print_answer(api.get("pallas", instance), f"{text}\n  pallas instances reveal {instance}", as_json=as_json)


def provision_instance(api: AdminApi, row: Row) -> Row:
    """Provision the team of an instance now; returns the instance as it is then."""
    api.change("POST", "pallas", row["id"], "provision")
    return _settled(api, row["id"])


def _settled(api: AdminApi, instance: str) -> Row:
    """The instance when its team is provisioned, or has failed, or still neither after a while."""
    until = monotonic() + _SECONDS
    row: Row = api.get("pallas", instance)
    while row["status"] in (None, "pending") and monotonic() < until:
        sleep(_INTERVAL)
        row = api.get("pallas", instance)
    return row


def _team(row: Row) -> str:
    state = row["status"] or "not provisioned"
    return f"{state}: {row['status_reason']}" if row["status_reason"] else state


def _lines(row: Row) -> list[str]:
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
    return lines


def _uncompared(row: Row) -> list[str]:
    """Why the team could not be compared with Mnemosyne at the last try: none, or one."""
    believed: Row = row["believed"] or {}
    return [believed["error"]] if believed.get("error") and row["status"] == "provisioned" else []


_TROUBLES = {"registry not read": "last_fetch_error", "differs at Mnemosyne": "drift"}
