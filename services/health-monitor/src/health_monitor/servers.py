"""What the servers of the broker say about themselves, and about the streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Server:
    """One server. Sizes are bytes; `limit` is how much its streams may take; `slow` counts since its start.

    `cluster` is the number of servers that its cluster should have. `streams` are those of which it has a replica, with
    its view of their cluster, None where there is no cluster.
    """

    name: str
    connections: int
    slow: int
    memory: int
    stored: int
    limit: int
    cluster: int
    streams: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class StreamView:
    """What all servers say of one stream: who leads it, and how many messages each replica lacks."""

    leader: str | None
    lags: Mapping[str, int]
