"""How much of the broker's store the turns of each team take.

JetStream counts the bytes of a stream, but not those of its subjects. So messages at random positions are read, and
each stands for as many others. Every process finds about the same, also right after its start, and nothing is kept.
"""

import asyncio
import json
import secrets
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg

from pallas_bus.transport.connection import Bus
from pallas_contracts.catalog import DEAD_LETTERS, TURN_LOG, TURN_OBJECTS, TURN_QUEUE

_WANTED = 32
"""Messages of a stream that are read at a time, and the last of which are kept: four times as many."""

_MOST_TRIES = 4 * _WANTED
"""Positions that are tried at a time: where messages have been removed, most of them are empty."""

_AT_ONCE = 8
_OF_A_MESSAGE = 40
"""Bytes that the store adds to a message."""


@dataclass(frozen=True, slots=True)
class _State:
    size: int
    first: int
    last: int


def _samples() -> deque[tuple[str, int]]:
    return deque(maxlen=4 * _WANTED)


@dataclass
class StoreUse:
    """The bytes of the streams with turns (`total`), and an estimate of those of each team (`teams`)."""

    bus: Bus
    total: int = 0
    teams: Mapping[str, int] = field(default_factory=dict[str, int])
    _read: dict[str, deque[tuple[str, int]]] = field(default_factory=dict[str, "deque[tuple[str, int]]"])

    async def measure(self, least: int) -> None:
        """Measure the total, and teams if it is above `least` bytes: below, no team can have as much.

        Raises:
            Unavailable: the broker does not answer.
        """
        names = [stream.name for stream in (TURN_LOG, TURN_QUEUE, TURN_OBJECTS, DEAD_LETTERS)]
        states = {name: await self._state(name) for name in names}
        self.total = sum(state.size for state in states.values())
        if self.total <= least:
            self._read, self.teams = {}, {}
            return
        teams = Counter[str]()
        for name, state in states.items():
            await self._sample(name, state)
            sizes = Counter[str]()
            for team, size in self._read[name]:
                sizes[team] += size
            for team, size in sizes.items():
                teams[team] += state.size * size // sizes.total()
        self.teams = teams

    async def _state(self, stream: str) -> _State:
        state: dict[str, int] = (await self.bus.api(f"STREAM.INFO.{stream}", {}))["state"]
        return _State(state["bytes"], state["first_seq"], state["last_seq"])

    async def _sample(self, stream: str, state: _State) -> None:
        """Read some messages. Each is as likely as any other: an empty position does not stand for the next message."""
        read = self._read.setdefault(stream, _samples())
        found = 0
        for positions in _random_positions(state):
            subject = f"$JS.API.DIRECT.GET.{stream}"
            asked = (self.bus.request(subject, json.dumps({"seq": position}).encode()) for position in positions)
            for message in await asyncio.gather(*asked):
                if (stored := (message.headers or {}).get("Nats-Subject")) is not None:
                    read.append((stored.split(".")[4], _size(message, stored)))
                    found += 1
            if found >= _WANTED:
                return


def _random_positions(state: _State) -> Iterator[list[int]]:
    if state.size:
        for _ in range(_MOST_TRIES // _AT_ONCE):
            yield [state.first + secrets.randbelow(1 + state.last - state.first) for _ in range(_AT_ONCE)]


def _size(message: Msg, subject: str) -> int:
    headers: Mapping[str, Any] = message.headers or {}
    own = sum(len(name) + len(value) for name, value in headers.items() if not name.startswith("Nats-"))
    return _OF_A_MESSAGE + len(subject) + own + len(message.data)
