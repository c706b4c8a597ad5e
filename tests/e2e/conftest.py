"""Two stacks for all end-to-end tests that do not start their own, of which one runs at a time.

A stack that waits for its next test costs processor time too. So tests that start their own come first, then those of
one stack, then those of the other.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path

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
    """Say which stack a test is about, and let the official client talk to the server in both ways.

    It talks in one way where a test is not about the wire.
    """
    for name in _STACKS:
        if name in metafunc.fixturenames:
            metafunc.parametrize("shared", [name], ids=[pytest.HIDDEN_PARAM], indirect=True, scope="package")
    if "era" in metafunc.fixturenames:
        eras = ERAS[:1] if metafunc.definition.get_closest_marker("one_era") else ERAS
        metafunc.parametrize("era", eras, ids=("modern", "legacy")[: len(eras)])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of the shared stacks behind those that start their own, stack by stack.

    Tests of other folders, which come here too, may have fixtures of these names.
    """
    places = {name: place for place, name in enumerate(_STACKS, 1)}

    def place_of(item: pytest.Item) -> int:
        names = getattr(item, "fixturenames", ()) if item.nodeid.startswith("tests/e2e/") else ()
        return max((places.get(name, 0) for name in names), default=0)

    items.sort(key=place_of)


_STACKS: dict[str, Callable[[Path], AbstractContextManager[Lab | AuthStack]]] = {
    "lab": running_lab,
    "auth_stack": running_auth_stack,
}


@pytest.fixture(scope="package")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab | AuthStack]:
    """The stack with the name of the parameter. The one before ends when a test asks for the other."""
    with _STACKS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running
        assert running.stack.denied() == []


@pytest.fixture(scope="package")
def lab(shared: Lab) -> Lab:
    """The stack without auth services. A test that kills a process waits for its successor."""
    return shared


@pytest.fixture(scope="package")
def auth_stack(shared: AuthStack) -> AuthStack:
    """The stack with its auth services. A test that changes what the demo team may read restores it."""
    return shared


@pytest.fixture
async def turns(lab: Lab) -> AsyncGenerator[Turns]:
    """The log of the lab's turns."""
    async with following(lab.nats) as turns:
        yield turns
