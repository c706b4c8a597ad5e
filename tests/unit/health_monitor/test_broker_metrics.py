"""What is shown of the broker's servers and streams."""

import pytest
from prometheus_client import CollectorRegistry

from health_monitor.broker_metrics import make_broker_metrics
from health_monitor.settings import MonitorSettings
from pallas_bus.servers import Server, StreamView
from pallas_contracts.errors import Rejected


def server(name: str, *, slow: int = 0) -> Server:
    """A server of three."""
    return Server(name, connections=4, slow=slow, memory=1, stored=10, limit=20, cluster=3, streams={})


def test_slow_consumers_are_counted_over_a_restart_of_their_server() -> None:
    registry = CollectorRegistry()
    metrics = make_broker_metrics(registry)
    for slow in (7, 9, 9, 2):  # it had counted 7 before it was watched, and began again at 0
        metrics.servers_read({"n0": server("n0", slow=slow)})
    assert registry.get_sample_value("pallas_broker_slow_consumers_total", {"server": "n0"}) == 4


def test_a_server_that_does_not_answer_is_down_and_shows_nothing_else() -> None:
    registry = CollectorRegistry()
    metrics = make_broker_metrics(registry)
    metrics.servers_read({"n0": server("n0"), "n1": server("n1")})
    metrics.servers_read({"n0": server("n0"), "n1": None})
    assert registry.get_sample_value("pallas_broker_up", {"server": "n1"}) == 0
    assert registry.get_sample_value("pallas_broker_connections", {"server": "n1"}) is None
    assert registry.get_sample_value("pallas_broker_cluster_size") == 3


def test_a_stream_without_a_leader_or_that_no_server_has_is_leaderless() -> None:
    registry = CollectorRegistry()
    streams = {"LED": StreamView("n0", {"n1": 3, "n2": None}), "LOST": StreamView(None, {}), "GONE": None}
    make_broker_metrics(registry).streams_read(streams)
    shown = {name: registry.get_sample_value("pallas_stream_leaderless", {"stream": name}) for name in streams}
    assert shown == {"LED": 0, "LOST": 1, "GONE": 1}
    assert registry.get_sample_value("pallas_stream_replica_lag", {"stream": "LED", "server": "n1"}) == 3
    assert registry.get_sample_value("pallas_stream_replica_lag", {"stream": "LED", "server": "n2"}) is None


@pytest.mark.parametrize("url", ["nats:8222", "http://nats", "ftp://nats:8222", "http://:8222", "http://n:x"])
def test_an_address_of_monitoring_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(Rejected, match=r"PALLAS_NATS_MONITOR_URLS: .*http://NAME:PORT"):
        MonitorSettings.from_env({"PALLAS_NATS_MONITOR_URLS": f"http://ok:8222, {url}"})
