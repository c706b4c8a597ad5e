"""Fixtures of all integration tests: one Postgres, and a long timeout for Redis in case the machine pauses.

Services give Redis up after a quarter of a second and do without it. Tests of what happens then say so.
"""

from collections.abc import Generator

import pytest
from tests.postgres import PostgresServer
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True, scope="module")
def patience_with_redis() -> Generator[None]:
    """Services in the test's process do not take a pause of the machine for a hanging Redis."""
    with pytest.MonkeyPatch.context() as patched:
        for limit in ("TIMEOUT", "CONNECTION_WITHIN"):
            patched.setattr(f"pallas_lookups.cache.{limit}", PATIENCE)
        yield


@pytest.fixture
def soon_redelivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker delivers turns of lost workers again after 4 s: workers in the test's process tell it so."""
    monkeypatch.setattr("pallas_turns.queue.ACK_WAIT", 4.0)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """The Postgres of all tests that leave it running. Each test creates its own databases."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server
