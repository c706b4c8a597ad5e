"""Postgres of this part of the run."""

from collections.abc import Generator

import pytest
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """A Postgres that tests leave running."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server
