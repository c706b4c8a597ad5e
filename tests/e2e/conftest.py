"""Stacks for all end-to-end tests that do not start their own, each started when the first of them asks for it."""

from collections.abc import AsyncGenerator, Generator

import pytest
from tests.e2e.auth_stack import AuthStack, running_auth_stack
from tests.e2e.lab import ERAS, Lab, running_lab
from tests.e2e.stack import Stack
from tests.e2e.turns import Turns, following


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the log lines of the services to a failed test's report."""
    report = yield
    if report.failed:
        report.sections.extend((f"Logs of {stack.folder.name}", stack.last_lines()) for stack in Stack.running)
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let the official client talk to the server in both ways, or in one where a test is not about the wire."""
    if "era" in metafunc.fixturenames:
        eras = ERAS[:1] if metafunc.definition.get_closest_marker("one_era") else ERAS
        metafunc.parametrize("era", eras, ids=("modern", "legacy")[: len(eras)])


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    """The shared stack. A test that kills a process waits for its successor."""
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running
        assert running.stack.denied() == []


@pytest.fixture(scope="package")
def auth_stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[AuthStack]:
    """The shared stack with its auth services. A test that changes what the demo team may read restores it."""
    with running_auth_stack(tmp_path_factory.mktemp("auth")) as running:
        yield running
        assert running.stack.denied() == []


@pytest.fixture
async def turns(lab: Lab) -> AsyncGenerator[Turns]:
    """The log of the lab's turns."""
    async with following(lab.nats) as turns:
        yield turns
