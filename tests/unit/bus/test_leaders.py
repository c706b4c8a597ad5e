"""What servers say of streams: which can store messages, and how far their replicas are."""

from typing import Any, override

import pytest

from pallas_bus import leaders as leaders_module
from pallas_bus.client import BusClient
from pallas_bus.connection import Bus
from pallas_bus.errors import api_error
from pallas_bus.leaders import Leaders, is_led
from pallas_bus.servers import Server, StreamView, views

NOW, LONG_AGO, NEVER = 400_000_000, 6_000_000_000, 0
"""Nanoseconds since a leader has heard a replica."""


def cluster(*heard: int, leader: str | None = "n0", current: bool = False) -> dict[str, Any]:
    """What n0 says: its leader, and when it has heard n1, n2 and so on."""
    replicas = [{"name": f"n{number}", "active": active, "current": current} for number, active in enumerate(heard, 1)]
    return {"leader": leader, "replicas": replicas} if leader else {"replicas": replicas}


@pytest.mark.parametrize(
    ("said", "led"),
    [
        (None, True),
        ({"leader": "n0"}, True),
        (cluster(NOW, NOW), True),
        (cluster(NOW, LONG_AGO), True),
        (cluster(LONG_AGO, LONG_AGO), False),
        (cluster(NOW, NEVER), True),
        (cluster(NEVER, NEVER), False),
        (cluster(NEVER, NEVER, current=True), True),
        (cluster(NOW, NOW, LONG_AGO, LONG_AGO), True),
        (cluster(NOW, LONG_AGO, LONG_AGO, LONG_AGO), False),
        (cluster(NOW, NOW, leader=None), False),
        ({}, False),
    ],
)
def test_a_stream_is_led_while_its_leader_hears_enough_replicas(said: dict[str, Any] | None, *, led: bool) -> None:
    assert is_led(said) is led


def server(name: str, **streams: dict[str, Any] | None) -> Server:
    """A server that has replicas of these streams."""
    return Server(name, connections=1, slow=0, memory=1, stored=1, limit=2, cluster=3, streams=streams)


def test_the_leader_of_a_stream_is_the_one_that_says_so_itself() -> None:
    behind = cluster(NOW, LONG_AGO)
    behind["replicas"][0]["lag"] = 7
    seen = views([server("n1", LOG={"leader": "n0", "replicas": []}), server("n0", LOG=behind)])
    assert seen == {"LOG": StreamView("n0", {"n1": 7, "n2": None})}


def test_what_the_others_say_of_a_lost_leader_does_not_count() -> None:
    assert views([server("n1", LOG={"leader": "n0", "replicas": []})]) == {"LOG": StreamView(None, {})}


def test_a_stream_of_a_server_without_a_cluster_is_led_by_it() -> None:
    assert views([server("one", LOG=None)]) == {"LOG": StreamView("one", {})}


@pytest.mark.parametrize(("err_code", "refused"), [(10005, False), (10052, True)])
async def test_a_lost_stream_is_tried_again_unless_the_broker_refuses_it_for_good(
    err_code: int, *, refused: bool
) -> None:
    class Refusing(Bus):
        """A broker that has lost its stream, and makes none."""

        @override
        async def api(self, subject: str, body: object, timeout: float | None = None) -> dict[str, Any]:
            if subject == "STREAM.NAMES":
                return {"streams": []}
            raise api_error({"code": 400, "err_code": err_code}, subject)

    bus = Refusing("tester", "one", BusClient(), used={"LOG": {}}, seen={"LOG"})
    leaders = Leaders(bus, {})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(leaders_module, "UNTIL_MADE", 0)
        for _ in range(2):
            await leaders.ask()
    assert leaders.missing() == "missing: LOG"
    assert leaders.refused is refused
