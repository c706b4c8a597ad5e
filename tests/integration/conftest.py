"""What holds for all integration tests: a Redis that is there is waited for, also while the whole machine stands still.

Services give it up after a quarter of a second and do without it. Tests of what happens then say so.
"""

from collections.abc import Generator

import pytest
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def patience_with_redis() -> Generator[None]:
    """Services inside of the test do not take a pause of the machine for a Redis that hangs."""
    with pytest.MonkeyPatch.context() as patched:
        for limit in ("TIMEOUT", "CONNECTION_WITHIN"):
            patched.setattr(f"pallas_lookups.cache.{limit}", PATIENCE)
        yield
