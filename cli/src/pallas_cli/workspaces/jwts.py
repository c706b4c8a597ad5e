"""The JWTs of teams, each of which is revealed once: into a file, or as text."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import print_answer, print_secret
from pallas_cli.plain_text import plain_line, print_plain
from pallas_cli.refused import Refused
from pallas_cli.workspaces.find import find_instance, instances
from pallas_cli.workspaces.instances import provision_instance

_HEADERS = ("team", "instance", "state", "jwt")


def reveal_to_file(api: AdminApi, given: str, path: Path, *, as_json: bool) -> None:
    """Put the stanza of an instance into a file, without showing it."""
    from pallas_cli.workspaces.stanza import reveal_into

    row = find_instance(api, given)
    file = reveal_into(path, lambda: _revealed(api, row)["stanza"])
    text = f"The JWT of {row['name']} is in {file}. It cannot be shown again."
    print_answer({"id": row["id"], "file": str(file)}, plain_line(text), as_json=as_json)


def reveal(api: AdminApi, given: str, *, as_json: bool) -> None:
    """Print the stanza of an instance."""
    row = find_instance(api, given)
    answer = _revealed(api, row)
    text = f"This belongs into {answer['file']} of {plain_line(row['name'])}."
    print_secret({"id": row["id"], **answer}, answer["stanza"].rstrip("\n"), text, as_json=as_json)


def provision_teams(api: AdminApi, *, as_json: bool) -> None:
    """Provision every instance that is not, and print the JWTs that this makes (auth contract, section 9.5).

    Raises:
        Exit: with code 1, if a team could not be provisioned.
    """
    rows = [_provisioned(api, row) for row in instances(api)]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain("There are no instances.")
    else:
        for line in _table([[plain_line(row[name] or "-") for name in _HEADERS] for row in rows]):
            print_plain(line)
    if any(row["failed"] for row in rows):
        raise typer.Exit(1)


def _revealed(api: AdminApi, row: Row) -> Row:
    return api.change("POST", "pallas", row["id"], "reveal")


def _provisioned(api: AdminApi, row: Row) -> Row:
    """A row of the table. A team that was provisioned before is left alone."""
    done: Row = {"team": row["name"], "instance": row["id"], "state": "provisioned before", "jwt": None}
    if row["status"] == "provisioned":
        return {**done, "failed": False}
    try:
        now = provision_instance(api, row)
        if now["status"] != "provisioned":
            return {**done, "state": _why_not(now), "failed": True}
        jwt = _revealed(api, row)["jwt"] if now["jwt"] == "ready" else None
    except Refused as refusal:
        return {**done, "state": f"failed: {refusal}", "failed": True}
    return {**done, "state": "provisioned", "jwt": jwt, "failed": False}


def _why_not(row: Row) -> str:
    return f"{row['status'] or 'not provisioned'}: {row['status_reason'] or 'no reason is known'}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of equal columns. No cell is cut, because a JWT is copied from here."""
    lines = [_HEADERS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADERS))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
