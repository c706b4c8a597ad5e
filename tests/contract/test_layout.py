"""Where services, shared packages and tests are in the repository."""

import ast
import tomllib
from pathlib import Path

import pytest
from tests.contract.tree import ROOT, packages
from tests.requirements import requirement

PACKAGES = {package.folder.name: package for package in packages()}
SERVICES = [package for package in PACKAGES.values() if package.is_service]


@requirement("K-top-1", "K-top-2", "K-top-3", "K-top-4", "K-top-5")
@pytest.mark.parametrize(
    "name",
    [
        "registry",
        "agent-gateway",
        "auth-resolver",
        "team-lifecycle",
        "health-monitor",
        "agent-worker",
        "library-search",
        "data-pool",
        "pipelines",
        "workspaces",
        "fleet",
    ],
)
def test_a_service_is_a_package_of_its_own(name: str) -> None:
    assert PACKAGES[name].is_service
    assert (PACKAGES[name].folder / "src" / PACKAGES[name].module / "__main__.py").exists()


@requirement("K-top-6")
def test_services_import_pallas_packages_from_shared_only() -> None:
    for service in SERVICES:
        own = {name for name, _ in service.imports() if name.startswith("pallas_")}
        assert own <= {package.module for package in PACKAGES.values() if package.folder.parent.name == "shared"}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_needs_others_of_ours_in_its_own_version(name: str) -> None:
    project = tomllib.loads((PACKAGES[name].folder / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [each for extra in project.get("optional-dependencies", {}).values() for each in extra]
    ours = [each for each in (*project.get("dependencies", ()), *extras) if each.startswith("pallas-")]
    assert [each for each in ours if not each.endswith(f"=={project['version']}")] == []


@requirement("K-top-9")
def test_test_files_are_in_the_tests_folder_only() -> None:
    assert [
        path
        for folder in ("shared", "services", "clients", "cli", "demo")
        for path in (ROOT / folder).rglob("test_*.py")
    ] == []


def test_fixtures_that_outlast_their_folder_are_not_async() -> None:
    """Such a fixture would keep one event loop, with the tasks that tests left there, for all later tests."""
    assert [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if _keeps_an_event_loop(path)] == []


def _keeps_an_event_loop(path: Path) -> bool:
    lasting = [
        keyword.value.value
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.AsyncFunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
        if keyword.arg == "scope" and isinstance(keyword.value, ast.Constant)
    ]
    # Outside a package, `package` means `session`.
    in_package = (path.parent / "__init__.py").exists()
    return "session" in lasting or ("package" in lasting and not in_package)
