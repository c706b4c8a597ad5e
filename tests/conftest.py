"""Fixtures of all tests: a NATS server for each module, connections to it, and a unique team name.

Servers are real. `nats_url` is shared by the tests of a module, so a test uses its own `team`; a test that stops the
server takes `nats_server`, which is its own.
"""

import gc
import os
import signal
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from tests import groups, seed, timeouts
from tests.conformance import tables
from tests.embedded import NatsServer, nats_binary

from pallas_bus.connection import Bus, connect

# A background job of a shell ignores Ctrl-C, and so would every child that a test ends with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The contexts of whoever runs the tests are no part of them.
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / "pallas-tests-config")


class Connecting(Protocol):
    """Connects a service to the module's NATS server (or to `url`) until the test ends."""

    def __call__(self, service: str, *, url: str | None = None, instance: str | None = None) -> Awaitable[Bus]:
        """Return the connection."""
        ...


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of `tests.requirements`, group the tests, and limit the time of each."""
    for plugin in (groups, seed, timeouts, tables):
        config.pluginmanager.register(plugin)
    config.addinivalue_line("markers", "one_era: what the test is about lies behind the wire, so one era is enough")
    config.addinivalue_line("markers", "requirement(*ids): the rows of tests/requirements.py that the test shows")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage away from all tests and modules, now and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def leaves_nothing_open() -> Generator[None]:
    """Report a socket or a file that a test has left open in this test, and not in one that runs much later.

    The collector of garbage finds it, whose warning is an error.
    """
    before = len(os.listdir("/dev/fd"))
    yield
    if len(os.listdir("/dev/fd")) > before:
        gc.collect()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of async tests: nats-py needs asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def nats_url() -> Generator[str]:
    """The module's NATS server: each gateway opens all agents that the tests before have left."""
    with a_nats() as url:
        yield url


@contextmanager
def a_nats() -> Generator[str]:
    """The URL of a NATS server: PALLAS_TEST_NATS_URL, else an embedded one, else a container."""
    if given := os.environ.get("PALLAS_TEST_NATS_URL"):
        yield given
    elif nats_binary() is not None:
        with NatsServer() as server:
            yield server.url
    else:
        from testcontainers.community.nats import NatsContainer

        with NatsContainer("nats:2", jetstream=True) as container:
            yield container.nats_uri()


@pytest.fixture
def nats_server() -> Generator[NatsServer]:
    """A running NATS server for one test, which it may stop, kill and restart. Request it before `bus`."""
    with NatsServer() as server:
        yield server


@pytest.fixture
async def bus(request: pytest.FixtureRequest) -> AsyncGenerator[Connecting]:
    """Connect services: `await bus("agent-gateway")`. The connections are closed after the test."""
    async with AsyncExitStack() as stack:

        async def make(service: str, *, url: str | None = None, instance: str | None = None) -> Bus:
            server: str = url or request.getfixturevalue("nats_url")
            return await stack.enter_async_context(connect(server, service, instance=instance))

        yield make


@pytest.fixture
def team() -> str:
    """A team name that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"
