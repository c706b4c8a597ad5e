"""Metrics of the broker's servers, and of the streams as these see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge

from pallas_bus.servers import Server, StreamView

_SERVER, _STREAM, _REPLICA = ["server"], ["stream"], ["stream", "server"]


@dataclass(frozen=True)
class BrokerMetrics:
    """The instruments. Made by `make_broker_metrics`."""

    up: Gauge
    cluster_size: Gauge
    connections: Gauge
    slow_consumers: Counter
    memory: Gauge
    stored: Gauge
    store_limit: Gauge
    leaderless: Gauge
    leader: Gauge
    replica_lag: Gauge
    _slow: dict[str, int] = field(default_factory=dict[str, int])

    def servers_read(self, servers: Mapping[str, Server | None]) -> None:
        """Show these servers by name, and no others. None: it does not answer."""
        for metric in (self.up, self.connections, self.memory, self.stored, self.store_limit):
            metric.clear()
        for name, server in servers.items():
            self.up.labels(name).set(server is not None)
            if server is not None:
                self._server_read(server)
        self.cluster_size.set(max((server.cluster for server in servers.values() if server), default=0))

    def _server_read(self, server: Server) -> None:
        self.connections.labels(server.name).set(server.connections)
        self.memory.labels(server.name).set(server.memory)
        self.stored.labels(server.name).set(server.stored)
        self.store_limit.labels(server.name).set(server.limit)
        before = self._slow.get(server.name, server.slow)
        # Less than before: the server was restarted, and has counted from 0.
        self.slow_consumers.labels(server.name).inc(server.slow - before if server.slow >= before else server.slow)
        self._slow[server.name] = server.slow

    def streams_read(self, streams: Mapping[str, StreamView | None]) -> None:
        """Show these streams, and no others. None: no server has the stream."""
        for metric in (self.leaderless, self.leader, self.replica_lag):
            metric.clear()
        for name, stream in streams.items():
            self.leaderless.labels(name).set(stream is None or stream.leader is None)
            if stream is not None and stream.leader is not None:
                self.leader.labels(name, stream.leader).set(1)
                for server, lag in stream.lags.items():
                    if lag is not None:
                        self.replica_lag.labels(name, server).set(lag)


def make_broker_metrics(registry: CollectorRegistry) -> BrokerMetrics:
    """Register the instruments."""
    return BrokerMetrics(
        Gauge("pallas_broker_up", "1 when the server's monitoring answers, else 0", _SERVER, registry=registry),
        Gauge("pallas_broker_cluster_size", "Servers that the broker should have", registry=registry),
        Gauge("pallas_broker_connections", "Connections of clients to the server", _SERVER, registry=registry),
        Counter(
            "pallas_broker_slow_consumers_total",
            "Connections that the server closed because they did not take what they were sent",
            _SERVER,
            registry=registry,
        ),
        Gauge("pallas_broker_memory_bytes", "Resident memory of the server", _SERVER, registry=registry),
        Gauge("pallas_broker_store_bytes", "What the streams take on the server's disk", _SERVER, registry=registry),
        Gauge("pallas_broker_store_limit_bytes", "What they may take there", _SERVER, registry=registry),
        Gauge(
            "pallas_stream_leaderless", "1 when no server can store messages in the stream", _STREAM, registry=registry
        ),
        Gauge("pallas_stream_leader", "1 for the server that leads the stream", _REPLICA, registry=registry),
        Gauge("pallas_stream_replica_lag", "Messages that a replica of the stream lacks", _REPLICA, registry=registry),
    )
