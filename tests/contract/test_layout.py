"""Where things are and what they rest on."""

import tomllib

import pytest
from tests.contract.tree import ROOT, Package, packages
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
    ],
)
def test_a_service_is_a_package_of_its_own(name: str) -> None:
    assert PACKAGES[name].is_service
    assert (PACKAGES[name].folder / "src" / PACKAGES[name].module / "__main__.py").exists()


@requirement("K-top-6")
def test_what_services_share_is_in_shared() -> None:
    for service in SERVICES:
        own = {name for name, _ in service.imports() if name.startswith("pallas_")}
        assert own <= {package.module for package in PACKAGES.values() if package.folder.parent.name == "shared"}


@requirement("K-top-9")
def test_tests_are_in_tests_and_nowhere_else() -> None:
    assert [
        path for folder in ("shared", "services", "cli", "demo") for path in (ROOT / folder).rglob("test_*.py")
    ] == []


@requirement("K-pkg-1")
@pytest.mark.parametrize(
    ("package", "library"), [("bus", "nats-py"), ("agent-gateway", "mcp"), ("contracts", "pydantic")]
)
def test_bus_protocol_and_contracts_rest_on_their_libraries(package: str, library: str) -> None:
    assert library in PACKAGES[package].declared


@requirement("K-pkg-2")
def test_http_is_served_by_fastapi_and_uvicorn() -> None:
    assert "uvicorn" in PACKAGES["runtime"].declared
    assert "fastapi" in PACKAGES["registry"].declared


@requirement("K-pkg-3")
def test_bearers_are_resolved_with_pyjwt_and_redis() -> None:
    assert "pyjwt" in PACKAGES["auth-resolver"].declared
    assert "redis" in PACKAGES["lookups"].declared


@requirement("K-pkg-4")
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.folder.name)
def test_every_service_starts_through_the_runtime_which_traces(service: Package) -> None:
    assert "opentelemetry-sdk" in PACKAGES["runtime"].declared
    main = (service.folder / "src" / service.module / "__main__.py").read_text("utf-8")
    assert "pallas_runtime.run" in main


@requirement("K-pkg-5")
def test_the_tests_need_pytest_and_can_use_containers() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    wanted = " ".join(groups["dev"])
    assert "pytest" in wanted
    assert "testcontainers" in wanted
    assert "NatsContainer" in (ROOT / "tests" / "conftest.py").read_text("utf-8")
