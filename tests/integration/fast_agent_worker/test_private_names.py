"""Names that libraries may change at will are known, and are in the versions of the lock."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.contract.tree import ROOT
from tests.integration.fast_agent_worker import private_names
from tests.integration.fast_agent_worker.stage import python

SOURCE = ROOT / "services" / "fast-agent-worker" / "src"
OWN = {"_run_tools", "_call_tool", "_exit"}


def foreign_names(tree: ast.AST) -> Iterator[str]:
    """The names with an underscore that a module takes of other objects than `self`, or imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                names = [name]
            case ast.ImportFrom(names=aliases):
                names = [alias.name for alias in aliases]
            case _:
                continue
        yield from (name for name in names if name.startswith("_") and not name.startswith("__"))


def test_every_private_name_of_a_library_is_listed_with_what_to_do_when_it_is_gone() -> None:
    used = {name for path in SOURCE.rglob("*.py") for name in foreign_names(ast.parse(path.read_text("utf-8")))}
    assert used - OWN <= {name for _, name in private_names.NAMES}


def test_the_versions_of_the_lock_have_the_private_names() -> None:
    packages = next(python().parents[1].glob("lib/python*/site-packages"))
    gone = [
        f"{module} has no {name}: {advice}"
        for (module, name), advice in private_names.NAMES.items()
        if not re.search(rf"\b{name}\b", source_of(packages, module))
    ]
    assert gone == []


def source_of(packages: Path, module: str) -> str:
    """The source of a module; empty if there is none."""
    path = packages / module.replace(".", "/")
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((each.read_text("utf-8") for each in found if each.is_file()), "")
