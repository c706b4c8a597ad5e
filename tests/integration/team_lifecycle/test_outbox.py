"""Events reach the stream in order and once, whatever is killed between the change and the broker."""

import asyncio
import signal
import uuid
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import SERVICE_PASSWORD, TEAMS, environment
from tests.integration.team_lifecycle.replica import Replica, replicas
from tests.postgres import PostgresServer

from pallas_bus.connection import Bus
from pallas_contracts.auth import LifecycleChanged

PAUSE = 0.02
"""Seconds between two changes, so that a start does not wait for the processor that changes take."""


async def stored(bus: Bus) -> list[LifecycleChanged]:
    """All events in the stream, in its order."""
    state = (await bus.api("STREAM.INFO.CHANGES", {}))["state"]
    events: list[LifecycleChanged] = []
    for sequence in range(state["first_seq"], state["last_seq"] + 1):
        message = await bus.request("$JS.API.DIRECT.GET.CHANGES", b'{"seq": %d}' % sequence)
        events.append(LifecycleChanged.model_validate_json(message.data))
    return events


@pytest.mark.timeout(300)
async def test_events_arrive_in_order_and_once_while_processes_and_the_broker_are_killed(
    addresses: dict[str, str],
    nats_server: NatsServer,
    postgres: PostgresServer,
    bus: Connecting,
    tmp_path: Path,
) -> None:
    made = 0
    async with replicas(2, environment(**addresses), tmp_path) as running:

        async def change(replica: Replica, until_done: asyncio.Event) -> None:
            """Make teams until the event is set. Retries while the process is down."""
            nonlocal made
            account = ("daedalus-service", SERVICE_PASSWORD)
            async with httpx.AsyncClient(base_url=replica.base, auth=account, trust_env=False) as client:
                while not until_done.is_set():
                    with suppress(httpx.TransportError):
                        answer = await client.post(TEAMS, json={"id": str(uuid.uuid4()), "name": "x"})
                        made += answer.status_code == 201
                    await asyncio.sleep(PAUSE)

        done = asyncio.Event()
        working = [asyncio.create_task(change(replica, done)) for replica in running]
        for round_ in range(3):
            enough = made + 30

            async def more(enough: int = enough) -> bool:
                return made >= enough

            await until(more, within=30)
            await running[round_ % 2].end(signal.SIGKILL)
            if round_ % 2:
                await asyncio.to_thread(nats_server.restart, kill=True)
            await running[round_ % 2].start()
        done.set()
        await asyncio.gather(*working)
        listener = await bus("test", url=nats_server.url)

        async def all_sent() -> bool:
            [(waiting,)] = await postgres.say(
                "select (select max(number) from changes) - sent from relay_position", addresses["postgres_url"]
            )
            return waiting == 0

        await until(all_sent, within=30)
        events = await stored(listener)
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert len({event.id for event in events if event.action == "provisioned"}) >= made >= 90
        assert await running[0].end(signal.SIGTERM) == 0
