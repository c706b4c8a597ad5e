"""What all integration tests share: one Postgres, and patience with Redis, also while the whole machine stands still.

Services give Redis up after a quarter of a second and do without it. Tests of what happens then say so.
"""

from collections.abc import Generator

import pytest
from tests.postgres import PostgresServer
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def patience_with_redis() -> Generator[None]:
    """Services inside of the test do not take a pause of the machine for a Redis that hangs."""
    with pytest.MonkeyPatch.context() as patched:
        for limit in ("TIMEOUT", "CONNECTION_WITHIN"):
            patched.setattr(f"pallas_lookups.cache.{limit}", PATIENCE)
        yield


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """The Postgres of all tests that leave it running. Each makes databases of its own."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server
