"""Each service that writes to streams may find out whether they have a leader, and operators how the servers are."""

from typing import Any

import pytest
from tests.integration.broker.guarded import ALPHA, Guarded, trying, worker

from pallas_bus.connection import Bus, connect
from pallas_bus.leaders import watch_leaders
from pallas_bus.servers import ask_servers
from pallas_cli.broker_config.users import SYSTEM
from pallas_contracts.catalog import (
    CLI,
    DATA_TEAM,
    FLEET,
    FLEET_TEAM,
    GATEWAY,
    HEALTH,
    MONITOR,
    PIPELINES,
    POOL,
    PROBES,
    TURN_LOG,
    TURN_QUEUE,
    WORKER,
    WRITE_TEST,
)
from pallas_contracts.contract import Bucket, Stream
from pallas_contracts.errors import Unavailable


@pytest.mark.parametrize(
    ("service", "user", "things", "team"),
    [
        (GATEWAY, GATEWAY, (TURN_QUEUE, TURN_LOG), None),
        (PIPELINES, PIPELINES, (TURN_QUEUE, TURN_LOG), None),
        (MONITOR, MONITOR, (HEALTH, PROBES), None),
        (WORKER, worker(ALPHA), (TURN_LOG,), ALPHA),
        (POOL, POOL, (TURN_LOG,), DATA_TEAM),
        (FLEET, FLEET, (TURN_LOG,), FLEET_TEAM),
    ],
)
async def test_a_service_finds_the_leaders_of_its_streams_and_stores_only_its_write_test(
    declared: Guarded, service: str, user: str, things: tuple[Stream | Bucket[Any], ...], team: str | None
) -> None:
    before = len(declared.violations)
    async with (
        connect(declared.access(user), service) as bus,
        watch_leaders(bus, *things, team=team) as leaders,
        connect(declared.access(CLI), CLI) as operator,
    ):
        stored = [await stored_subjects(operator, name) for name in leaders.streams]
        for _ in range(2):
            await leaders.ask()
        assert leaders.missing() is None
        after = [await stored_subjects(operator, name) for name in leaders.streams]
    assert after == stored
    assert declared.violations[before:] == []


async def stored_subjects(operator: Bus, stream: str) -> dict[str, int]:
    """How many messages each subject has, without the write tests, which the watch stores and which expire."""
    subjects = (await operator.api(f"STREAM.INFO.{stream}", {"subjects_filter": ">"}))["state"].get("subjects", {})
    write_tests = WRITE_TEST.template.filter().removesuffix("*")
    return {subject: count for subject, count in subjects.items() if not subject.startswith(write_tests)}


async def test_a_stream_that_is_not_there_has_no_leader(declared: Guarded) -> None:
    nowhere = Stream("NOWHERE", ("nowhere",), owner=GATEWAY, summary="")
    async with connect(declared.access(CLI), CLI) as bus, watch_leaders(bus, nowhere) as leaders:
        for _ in range(2):
            await leaders.ask()
        assert leaders.missing() == "no leader: NOWHERE"


async def test_the_system_account_sees_servers_and_none_of_the_streams_messages(declared: Guarded) -> None:
    async with connect(declared.access(SYSTEM), CLI) as bus:
        [server] = await ask_servers(bus)
        assert {TURN_LOG.name, TURN_QUEUE.name} <= server.streams.keys()
        assert server.limit > 0
        with pytest.raises(Unavailable):
            await bus.api(f"STREAM.MSG.GET.{TURN_LOG.name}", {"seq": 1}, timeout=0.5)


async def test_no_other_user_may_ask_the_servers(declared: Guarded) -> None:
    async with trying(declared.access(GATEWAY), GATEWAY) as trier:
        assert await trier.publish("$SYS.REQ.SERVER.PING.JSZ") == {"$SYS.REQ.SERVER.PING.JSZ"}
    async with connect(declared.access(CLI), CLI) as bus:
        assert await ask_servers(bus) == []
