"""What the tables of commands ask for is in the OpenAPI documents of the services."""

import re
from collections import defaultdict
from typing import Any
from unittest.mock import MagicMock

import pytest

from pallas_cli.rest import console, lifecycle
from pallas_cli.rest.commands import Change, Group, List, Show
from team_lifecycle.http import routing as team_lifecycle
from workspaces.http import routing as workspaces

DOCUMENTS: dict[str, dict[str, Any]] = {
    "team_lifecycle": team_lifecycle.make_app(MagicMock(algorithm="EdDSA")).openapi(),
    "workspaces": workspaces.make_api(MagicMock(version="0")).openapi(),
}
TABLES = {
    name.lower(): found for module in (lifecycle, console) for name, found in vars(module).items() if name.isupper()
}
ROWS = {
    f"{group} {name}": (table, work)
    for group, table in TABLES.items()
    if isinstance(table, Group)
    for name, work in table.rows.items()
    if isinstance(work, Change | List | Show)
}
GIVEN: dict[str, Any] = defaultdict(lambda: "x", none=False, expires=None)


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The operations by method and path, with `{}` for each parameter and without a slash at the end."""
    return {
        (method.upper(), re.sub("{[^}]*}", "{}", path).rstrip("/")): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


@pytest.mark.parametrize("row", ROWS)
def test_a_command_asks_for_what_the_service_documents(row: str) -> None:
    table, work = ROWS[row]
    document = DOCUMENTS[table.service.part]
    method, path = work.request.split(" ") if isinstance(work, Change) else ("GET", work.path)
    path = re.sub("{[^}]*}", "{}", f"/{table.service.root}/{path}")
    operation = operations(document)[method, path]
    if isinstance(work, List) and work.filters:
        assert set(work.filters) <= {each["name"] for each in operation["parameters"]}
    if isinstance(work, Change) and work.body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        known = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        assert set(work.body(GIVEN)) <= set(known)
