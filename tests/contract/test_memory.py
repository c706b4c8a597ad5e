"""What a container may use is enough for what is in it to keep to its own limits, and be refused rather than killed."""

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


def test_in_compose_the_reading_process_meets_its_limit_before_the_container_does() -> None:
    assert in_bytes(compose.containers()["library-search"]["mem_limit"]) >= SERVICE + LIMITS.memory


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_in_kubernetes_the_reading_process_meets_its_limit_before_the_pod_does(overlay: str) -> None:
    limits = container(pods(overlay)["library-search"])["resources"]["limits"]
    assert in_bytes(limits["memory"]) >= SERVICE + LIMITS.memory
