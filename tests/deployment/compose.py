"""`deploy/compose.yaml` as Docker Compose reads it: merged, and with the defaults of its variables filled in."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.contract.tree import ROOT

PATH = ROOT / "deploy" / "compose.yaml"
SECRETS = "/run/secrets/"
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?::-([^}]*))?\}")


type Node = dict[str, Node] | list[Node] | str | float | None


@cache
def compose() -> dict[str, Any]:
    """The whole file."""
    tree: dict[str, Node] = yaml.safe_load(PATH.read_text("utf-8"))
    return {key: _filled_in(node) for key, node in tree.items()}


def _filled_in(node: Node) -> Node:
    """The tree with its variables replaced, which Compose does in texts only."""
    match node:
        case dict():
            return {key: _filled_in(value) for key, value in node.items()}
        case list():
            return [_filled_in(value) for value in node]
        case str():
            return _VARIABLE.sub(lambda found: "$" if found[0] == "$$" else found[2] or "", node)
        case _:
            return node


def containers() -> dict[str, dict[str, Any]]:
    """What runs, by name."""
    return compose()["services"]


def environment(name: str) -> dict[str, str]:
    """The variables of a container."""
    return containers()[name].get("environment", {})


def mounted_files(name: str) -> list[Path]:
    """The files and folders of the repository that a container mounts."""
    sources = [volume.partition(":")[0] for volume in containers()[name].get("volumes", [])]
    return [(PATH.parent / source).resolve() for source in sources if source.startswith(".")]
