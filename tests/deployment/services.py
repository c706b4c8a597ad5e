"""The variables of a service in a deployment: its settings, those of the telemetry, and those that its teams name."""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path

from tests.contract.tree import ROOT, Package, packages

from pallas_runtime.settings import FILE_SUFFIX, Settings, variable

SERVICES = {package.folder.name: package for package in packages() if package.is_service}
DEMO = ROOT / "teams" / "demo"
_PLACEHOLDER = re.compile(r"(?<!\$)\$\{(\w+)")


def settings_of(package: Package) -> type[Settings]:
    """The settings that a service defines."""
    module = importlib.import_module(f"{package.module}.settings")
    [found] = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Settings) and each.__module__ != Settings.__module__
    ]
    return found


def unknown(name: str, given: Mapping[str, str]) -> set[str]:
    """The variables that mean nothing to a service."""
    known = settings_of(SERVICES[name]).model_fields
    hosted = named_by_teams(DEMO) if "teams" in known else set[str]()
    names = {word.removesuffix(FILE_SUFFIX) for word in given}
    return {word for word in names - {variable(field) for field in known} - hosted if not word.startswith("OTEL_")}


def named_by_teams(folder: Path) -> set[str]:
    """The variables that the files of a team folder name."""
    return {name for path in folder.glob("*.yaml") for name in _PLACEHOLDER.findall(path.read_text("utf-8"))}
