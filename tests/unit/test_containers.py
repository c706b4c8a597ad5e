"""Without local binaries, the servers for tests start in containers."""

from typing import Any, Self

import pytest
from tests import conftest
from tests.requirements import requirement


class RecordedContainer:
    """Starts nothing, and records its image and options."""

    def __init__(self, image: str, **options: Any) -> None:
        self.asked = (image, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def nats_uri(self) -> str:
        """The image and the options, in place of an address."""
        return f"{self.asked}"


@requirement("K-pkg-5")
def test_without_a_binary_nats_starts_in_a_container_with_jetstream(monkeypatch: pytest.MonkeyPatch) -> None:
    from testcontainers.community import nats

    monkeypatch.delenv("PALLAS_TEST_NATS_URL", raising=False)
    monkeypatch.setattr(conftest, "nats_binary", lambda: None)
    monkeypatch.setattr(nats, "NatsContainer", RecordedContainer)
    with conftest.a_nats() as url:
        assert url == "('nats:2', {'jetstream': True})"
