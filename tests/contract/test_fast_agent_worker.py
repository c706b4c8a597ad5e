"""fast-agent-worker is outside of the workspace, so what the other tests say of packages is said of it here."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tests.contract.test_rooms import floor_of, imports_of
from tests.contract.tree import ROOT, Package
from tests.deployment.compose import containers

from pallas_hosting.worker import WorkerSettings
from pallas_runtime.settings import Settings

FOLDER = ROOT / "services" / "fast-agent-worker"
SOURCE = FOLDER / "src" / "fast_agent_worker"
ROOMS = (("",), ("project",), ("turns",), ("own_agents",), ("hosting",), ("app", "check", "__main__"))
LOCKS = {"workspace": ROOT / "uv.lock", "fast-agent-worker": FOLDER / "uv.lock"}


def locked(lock: Path) -> dict[str, str]:
    """The versions of a lock."""
    found: list[dict[str, Any]] = tomllib.loads(lock.read_text("utf-8"))["package"]
    return {package["name"]: package.get("version", "") for package in found}


def used() -> list[Package]:
    """The shared packages that it takes by their paths, and itself."""
    sources = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]["sources"]
    return [Package(FOLDER), *(Package((FOLDER / source["path"]).resolve()) for source in sources.values())]


@pytest.mark.parametrize("lock", LOCKS)
def test_the_shared_packages_fit_both_locks(lock: str) -> None:
    versions, wrong = locked(LOCKS[lock]), list[str]()
    for package in used()[1:]:
        project = tomllib.loads((package.folder / "pyproject.toml").read_text("utf-8"))["project"]
        for text in project["dependencies"]:
            wanted = Requirement(text)
            version = versions.get(wanted.name.lower())
            if not wanted.name.startswith("pallas-") and (version is None or version not in wanted.specifier):
                wrong.append(f"{package.folder.name} wants {text}, and the lock has {version}")
    assert wrong == []


def test_it_takes_all_shared_packages_that_it_needs_by_path() -> None:
    needed = {name for package in used() for name in package.declared if name.startswith("pallas-")}
    assert needed == {f"pallas-{package.folder.name}" for package in used()[1:]}


def test_its_rooms_import_only_from_rooms_below_them() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {'.'.join(imported)}"
        for path in sorted(SOURCE.rglob("*.py"))
        for imported in imports_of(path, "fast_agent_worker")
        if floor_of(imported, ROOMS) > floor_of(tuple(path.relative_to(SOURCE).with_suffix("").parts), ROOMS)
    ]
    assert wrong == []


def test_only_the_shared_packages_are_imported_of_pallas() -> None:
    names = {name for package in used()[:1] for name, _ in package.imports() if name.startswith("pallas_")}
    assert names <= {package.module for package in used()[1:]}


def test_its_readme_has_the_parts_and_the_settings_of_a_service() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Owns", "Receives", "Sends", "Settings", "Failure modes"]
    own = set(re.findall(r"^    (\w+): ", (SOURCE / "settings.py").read_text("utf-8"), re.MULTILINE))
    fields = own | (WorkerSettings.model_fields.keys() - Settings.model_fields.keys())
    assert set(re.findall(r"^\| `PALLAS_(\w+)` \|", text, re.MULTILINE)) == {field.upper() for field in fields}


def test_compose_builds_it_from_its_own_lock_and_gives_it_the_workers_seed() -> None:
    container = containers()["fast-agent-worker"]
    assert container["build"]["args"] == {
        "PACKAGE": "pallas-fast-agent-worker",
        "PROJECT": "services/fast-agent-worker",
    }
    assert container["command"] == ["fast_agent_worker"]
    assert container["secrets"] == containers()["agent-worker"]["secrets"]
    assert json.dumps(container["profiles"]) == '["fast-agent"]'
