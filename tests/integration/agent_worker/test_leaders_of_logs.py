"""A worker is ready while the logs of its teams have leaders, whatever happens to those of others."""

from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.embedded import NatsServer
from tests.integration.real_parts import OWNED, a_lab, a_process, a_worker
from tests.waiting import eventually

from pallas_bus.transport import kv, leaders
from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect
from pallas_bus.transport.streams import declare
from pallas_contracts.catalog import GATEWAY, SHARDS
from pallas_contracts.message import utc_now
from pallas_contracts.shards import Earlier, TeamShard
from pallas_runtime.process import STORED

TEAM = "moved"


@pytest.fixture
def server() -> Generator[NatsServer]:
    """A broker whose streams may be lost."""
    with NatsServer() as server:
        yield server


async def test_a_worker_needs_the_logs_of_its_teams_only(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "EVERY", 0.02)
    monkeypatch.setattr(leaders, "AGAIN", 0.02)
    process, folder = a_process("agent-worker"), a_lab(tmp_path / "lab", TEAM)
    left = TeamShard(team=TEAM, shard=1, earlier=(Earlier(shard=0, until=utc_now() + timedelta(days=1)),))
    async with connect(Access(server.url, shards=3), GATEWAY) as bus:
        await declare(bus, *OWNED, SHARDS)
        async with a_worker(server.url, folder, process=process, log_shards="3"):
            needs = process.probes.checks[STORED]
            await bus.api("STREAM.DELETE.TURN_LOG_1", {})
            await bus.api("STREAM.DELETE.TURN_LOG_2", {})
            await kv.put(bus, SHARDS, left, team=TEAM)
            await eventually(lambda: needs() == "no leader: TURN_LOG_1")
            await bus.api("STREAM.DELETE.TURN_LOG", {})
            await eventually(lambda: needs() == "no leader: TURN_LOG, TURN_LOG_1")
