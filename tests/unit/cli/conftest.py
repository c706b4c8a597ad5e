"""All commands are built once for each process: at each run of one, typer would build them again."""

from collections.abc import Generator
from functools import cache

import pytest
from typer.main import get_command


@pytest.fixture(autouse=True, scope="package")
def built_once() -> Generator[None]:
    """The runner of typer keeps what it has built of an app."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("typer.testing._get_command", cache(get_command))
        yield
