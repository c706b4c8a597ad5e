"""One stack with the conformance agent for all tests here."""

import shutil
from collections.abc import Callable, Generator
from functools import cache

import pytest
from tests.conformance.node import HERE, install
from tests.conformance.suite import Run, Suite
from tests.e2e.stack import Stack


@pytest.fixture(scope="session")
def installed() -> None:
    """The installed npm packages."""
    install()


@pytest.fixture(scope="package")
def conformance_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The endpoint of the conformance agent. It changes files of its team, so the team is a copy."""
    folder = tmp_path_factory.mktemp("conformance")
    team = folder / "team"
    shutil.copytree(HERE / "team", team, ignore=shutil.ignore_patterns("__pycache__"))
    with Stack(folder / "stack", "--teams", str(team)) as stack:
        yield f"{stack.until_ready()['gateway']}/teams/conformance/mcp/conformance"


@pytest.fixture(scope="package")
def run_of(installed: None, conformance_url: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Suite], Run]:
    """Runs a suite, once however many tests ask for it."""

    @cache
    def run(suite: Suite) -> Run:
        return suite.run(conformance_url, tmp_path_factory.mktemp("results"))

    return run
