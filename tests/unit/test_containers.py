"""Where there are no binaries, servers of tests come in containers."""

from typing import Any, Self

import pytest
from testcontainers.community import nats
from tests import conftest
from tests.requirements import requirement


class Container:
    """Docker, as far as it is asked."""

    def __init__(self, image: str, **options: Any) -> None:
        self.asked = (image, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def nats_uri(self) -> str:
        """Where it listens, which is what it was asked."""
        return f"{self.asked}"


@requirement("K-pkg-5")
def test_without_a_binary_nats_comes_in_a_container_with_jetstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALLAS_TEST_NATS_URL", raising=False)
    monkeypatch.setattr(conftest, "nats_binary", lambda: None)
    monkeypatch.setattr(nats, "NatsContainer", Container)
    with conftest.a_nats() as url:
        assert url == "('nats:2', {'jetstream': True})"
