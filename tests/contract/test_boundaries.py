"""Which package may import which. A workspace does not stop imports of undeclared packages; this does."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from tests.contract.tree import Package, packages
from tests.requirements import requirement

OWN_MODULES = frozenset(package.module for package in packages())
SERVICES = frozenset(package.module for package in packages() if package.is_service)

PART_OF = {
    "uvloop": "uvicorn",  # of its `standard` extra
    "mcp_types": "mcp",
    "pydantic_core": "pydantic",
}
"""Modules of distributions that another one pins exactly, as a part of itself."""

each_package = pytest.mark.parametrize("package", packages(), ids=lambda package: package.folder.name)


@each_package
def test_no_service_is_imported_by_another_package(package: Package) -> None:
    wrong = [(name, str(path)) for name, path in package.imports() if name in SERVICES - {package.module}]
    assert wrong == []


@requirement("K-pkg-1")
@each_package
def test_only_the_bus_imports_nats(package: Package) -> None:
    found = [str(path) for name, path in package.imports() if name == "nats"]
    assert bool(found) == (package.module == "pallas_bus"), found


@requirement("K-pkg-1")
def test_the_contracts_import_only_pydantic_and_the_standard_library() -> None:
    [contracts] = [package for package in packages() if package.module == "pallas_contracts"]
    foreign = {name for name, _ in contracts.imports() if name not in sys.stdlib_module_names}
    assert foreign == {"pydantic", "pallas_contracts"}


def test_shared_packages_import_only_the_packages_below_them() -> None:
    allowed = {
        "pallas_contracts": set[str](),
        "pallas_bus": {"pallas_contracts"},
        "pallas_runtime": {"pallas_contracts"},
        "pallas_teams": {"pallas_contracts"},
        "pallas_turns": {"pallas_contracts", "pallas_bus", "pallas_runtime", "pallas_schemas"},
        "pallas_hosting": {
            "pallas_contracts",
            "pallas_bus",
            "pallas_runtime",
            "pallas_schemas",
            "pallas_teams",
            "pallas_turns",
        },
        "pallas_lookups": {"pallas_contracts"},
        "pallas_postgres": {"pallas_contracts"},
        "pallas_mcp_calls": set[str](),
        "pallas_outbox": {"pallas_contracts", "pallas_bus", "pallas_postgres"},
        "pallas_credentials": {"pallas_contracts"},
        "pallas_schemas": {"pallas_contracts"},
        "pallas_jsonrpc": {"pallas_contracts"},
        "pallas_cst": set[str](),
    }
    shared = [package for package in packages() if package.folder.parent.name == "shared"]
    used = {
        package.module: {name for name, _ in package.imports() if name in OWN_MODULES - {package.module}}
        for package in shared
    }
    assert {module for module, names in used.items() if not names <= allowed[module]} == set()


@each_package
def test_a_package_declares_what_it_imports(package: Package) -> None:
    missing = {
        (name, str(path))
        for name, path in package.imports()
        if name not in sys.stdlib_module_names and name != package.module and not declares(package, name)
    }
    assert missing == set()


@cache
def distributions() -> Mapping[str, list[str]]:
    """The distributions that bring each module."""
    return packages_distributions()


def declares(package: Package, module: str) -> bool:
    """Whether a dependency of the package brings that module."""
    brought = [name.lower().replace("_", "-").replace(".", "-") for name in distributions().get(module, [module])]
    return bool(package.declared & {*brought, PART_OF.get(module, "")})
