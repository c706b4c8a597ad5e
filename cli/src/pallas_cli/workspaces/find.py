"""Finds workspaces and instances by what a person types: an id, or a name that only one has, in any case."""

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.by_name import find_row


def instances(api: AdminApi) -> list[Row]:
    """All registered instances."""
    return api.get("pallas")["instances"]


def workspaces(api: AdminApi) -> list[Row]:
    """All workspaces."""
    return api.get("workspaces")["workspaces"]


def find_instance(api: AdminApi, given: str) -> Row:
    """The instance with this id or name.

    Raises:
        Refused: there is none, or several have this name.
    """
    return find_row(instances(api), given, "instance")


def find_workspace(api: AdminApi, given: str) -> Row:
    """The workspace with this id or name.

    Raises:
        Refused: there is none, or several have this name.
    """
    return find_row(workspaces(api), given, "workspace")
