"""The heartbeats of a worker, over a real broker."""

from pydantic import SecretStr
from tests.conftest import Connecting
from tests.waiting import Collected, soon

from pallas_bus.access import Access
from pallas_turns.liveness import send_heartbeats, watch_heartbeats


async def test_heartbeats_arrive_while_the_worker_runs(nats_url: str, bus: Connecting) -> None:
    beats = Collected[str]()
    async with watch_heartbeats(await bus("agent-gateway"), beats.add), send_heartbeats(nats_url, "w-1") as lost:
        await beats.until(lambda workers: workers.count("w-1") > 1)
        assert not lost.is_set()


async def test_a_worker_that_cannot_send_heartbeats_is_notified() -> None:
    async with send_heartbeats(Access("nats://127.0.0.1:1", SecretStr("no seed")), "w-1") as lost:
        await soon(lost.wait())
