"""The memory limits of library-search leave room for its reading process, which fails at its own limit first."""

import pytest
from tests.deployment import compose
from tests.deployment.kubernetes import OVERLAYS, container, pods

from library_search.reading.child import LIMITS

SERVICE = 1024**3
"""What library-search itself takes with two documents of the largest size at once: 600 MiB measured, and some more."""
_UNITS = {"m": 1024**2, "Mi": 1024**2, "g": 1024**3, "Gi": 1024**3}


def in_bytes(written: str) -> int:
    """A limit as it is written for Compose or Kubernetes."""
    number = written.rstrip("".join(_UNITS))
    return int(number) * _UNITS[written.removeprefix(number)]


def test_the_compose_memory_limit_leaves_room_for_the_reading_process() -> None:
    assert in_bytes(compose.containers()["library-search"]["mem_limit"]) >= SERVICE + LIMITS.memory


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_memory_limit_leaves_room_for_the_reading_process(overlay: str) -> None:
    limits = container(pods(overlay)["library-search"])["resources"]["limits"]
    assert in_bytes(limits["memory"]) >= SERVICE + LIMITS.memory
