"""The tables of settings in the documents list every setting with its default."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter
from tests.contract.tree import ROOT, Package, packages
from tests.deployment.services import settings_of

from pallas_cli.processes.environment import team_environment
from pallas_runtime.settings import PREFIX, Settings

SERVICES = [package for package in packages() if package.is_service]
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| .+ \|$", re.MULTILINE)
EVERY_PROCESS = ROOT / "docs" / "architecture.md"


def documented(document: Path, heading: str) -> dict[str, str]:
    """Variables and defaults of the table below a heading."""
    section = document.read_text("utf-8").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return {variable: default.strip("`") for variable, default in ROW.findall(section)}


def defined(model: type[Settings], *, without: frozenset[str] = frozenset()) -> dict[str, str]:
    fields = {name: field for name, field in model.model_fields.items() if name not in without}
    return {f"{PREFIX}{name.upper()}": as_documented(field.default) for name, field in fields.items()}


def as_documented(default: Any) -> str:
    """A default as a document writes it."""
    match default:
        case None | () | "":
            return "none"
        case SecretStr():
            return default.get_secret_value()
        case bool():
            return str(default).lower()
        case tuple():
            return ",".join(TypeAdapter(tuple[str, ...]).validate_python(default))
        case float():
            return f"{default:g}"
        case _:
            return str(default)


@pytest.mark.parametrize("package", SERVICES, ids=lambda package: package.module)
def test_the_readme_of_a_service_has_its_settings_with_their_defaults(package: Package) -> None:
    own = defined(settings_of(package), without=frozenset(Settings.model_fields))
    assert documented(package.folder / "README.md", "## Settings") == own


def test_the_settings_of_every_process_are_in_the_architecture() -> None:
    assert documented(EVERY_PROCESS, "## Settings of every process") == defined(Settings)


@pytest.mark.parametrize("package", SERVICES, ids=lambda package: package.module)
def test_every_readme_of_a_service_has_the_same_parts(package: Package) -> None:
    text = (package.folder / "README.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Owns", "Receives", "Sends", "Settings", "Failure modes"]


def test_the_inherited_environment_has_no_secret_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {name: field for it in SERVICES for name, field in settings_of(it).model_fields.items()}
    own = {name: field.annotation or str for name, field in fields.items() if name not in Settings.model_fields}
    schemas = {name: json.dumps(TypeAdapter[Any](kind).json_schema()) for name, kind in own.items()}
    secrets = {f"{PREFIX}{name.upper()}" for name, schema in schemas.items() if '"format": "password"' in schema}
    assert len(secrets) >= 7
    for name in secrets:
        monkeypatch.setenv(name, "a secret")
    assert secrets & team_environment().keys() == set()
