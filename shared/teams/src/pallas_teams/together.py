"""What must hold between team folders that are hosted together: names, identities and ports.

Reads trees, like `rules`: a clash is reported although a folder has other faults too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pallas_teams.faults import FaultList, Mark
from pallas_teams.tree import Branch, Leaf

_NOT_TOKEN = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Tenant:
    """One folder of a set; `tree` is its `agents.yaml`."""

    folder: Path
    tree: Branch


def slug(folder: Path) -> str:
    """The team name that a folder's own name gives; empty when it gives none."""
    return _NOT_TOKEN.sub("-", folder.resolve().name.lower()).strip("-")[:64]


def check_together(tenants: Sequence[Tenant], faults: FaultList) -> None:
    """Check a set of folders, which may be of one."""
    _check_names(tenants, faults)
    _check_identities(tenants, faults)
    _check_ports(tenants, faults)


def _check_names(tenants: Sequence[Tenant], faults: FaultList) -> None:
    taken: dict[str, Tenant] = {}
    for tenant in tenants:
        leaf = tenant.tree.text("name")
        name = str(leaf.value) if leaf else slug(tenant.folder)
        first = taken.setdefault(name, tenant)
        if first is not tenant:
            message = f"the team name is taken by {first.folder}; give this team another name"
            faults.add(leaf.mark if leaf else tenant.tree.mark, ("name",), message)


def _check_identities(tenants: Sequence[Tenant], faults: FaultList) -> None:
    """The registry knows an agent by namespace and name alone."""
    taken: dict[tuple[str, str], Tenant] = {}
    for tenant in tenants:
        namespace = tenant.tree.text("namespace")
        domain = str(namespace.value) if namespace else "local.pallas"
        for name, entry in tenant.tree.branch("agents").entries.items():
            first = taken.setdefault((domain, name), tenant)
            if first is not tenant:
                message = f"namespace and name are taken by {first.folder}; rename the agent or set another namespace"
                faults.add(entry.mark, ("agents", name), message)


def _check_ports(tenants: Sequence[Tenant], faults: FaultList) -> None:
    taken: dict[tuple[str, int], str] = {}
    for tenant in tenants:
        host = tenant.tree.text("host")
        local = str(host.value) if host else ""
        registry = _port(tenant.tree, "registry_port")
        own = {registry[0]: "registry_port"} if registry else {}
        for name in tenant.tree.branch("agents").entries:
            path = ("agents", name, "port")
            found = _port(tenant.tree, *path)
            if found is None:
                continue
            port, mark = found
            holder = own.get(port) or taken.get((local, port))
            if holder:
                faults.add(mark, path, f"the port is taken by {holder}")
            taken.setdefault((local, port), f"agents.{name} of {tenant.folder}")


def _port(tree: Branch, *path: str) -> tuple[int, Mark] | None:
    match tree.node(*path):
        case Leaf(value=bool()):
            return None
        case Leaf(value=int(port), mark=mark):
            return port, mark
        case Leaf(value=str(text), mark=mark) if text.isdecimal():
            return int(text), mark
        case _:
            return None
