"""A worker is not ready while the log has no leader."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.embedded import NatsServer
from tests.integration.real_parts import OWNED, a_lab, a_process, a_worker
from tests.waiting import eventually

from pallas_bus import leaders
from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY
from pallas_runtime.process import STORED


@pytest.fixture
def server() -> Generator[NatsServer]:
    """A broker whose streams may be lost."""
    with NatsServer() as server:
        yield server


async def test_a_worker_is_not_ready_while_the_log_has_no_leader(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "EVERY", 0.02)
    monkeypatch.setattr(leaders, "AGAIN", 0.02)
    process, folder = a_process("agent-worker"), a_lab(tmp_path / "lab", "lab")
    async with connect(Access(server.url), GATEWAY) as bus:
        await declare(bus, *OWNED)
        async with a_worker(server.url, folder, process=process):
            needs = process.probes.checks[STORED]
            await eventually(lambda: needs() is None)
            await bus.api("STREAM.DELETE.TURN_LOG", {})
            await eventually(lambda: needs() == "missing: TURN_LOG")
