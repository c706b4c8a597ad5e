"""How much of the broker's store the turns of each team take, and whether a team may store more.

JetStream counts the bytes of a stream, but not those of its subjects. So messages at random positions are read, and
each stands for as many others. Every process finds about the same, also right after its start, and nothing is kept.
"""

import asyncio
import json
import logging
import secrets
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pallas_bus.connection import Bus, Msg
from pallas_bus.errors import polling
from pallas_contracts.catalog import DEAD_LETTERS, TURN_LOG, TURN_OBJECTS, TURN_QUEUE
from pallas_contracts.errors import Unavailable
from pallas_turns.model import Refusal

log = logging.getLogger(__name__)

STORE_BYTES = 32 * 1024**3
TEAM_SHARE = 0.5
"""What the broker may store, and the part of it that one team may take, unless it is configured."""

_FOR_NEW_TURNS = 0.9
"""The part of the store that is for new turns."""

MEASURED_EVERY = 2.0
"""Seconds between two measurements."""

_RETRY_AFTER_MS = 30_000
_MIB = 1024**2


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


@dataclass
class StoreShares:
    """The store has `size` bytes, and one team may take the part `share` of it."""

    use: StoreUse
    size: int
    share: float

    def check(self, team: str) -> Refusal | None:
        """Why a turn of the team is refused; None: there is room for it."""
        most, taken = int(self.share * self.size), self.use.teams.get(team, 0)
        if taken > most:
            message = (
                f"Team {team!r} has used up its share of the platform's store: about {taken // _MIB} of {most // _MIB} "
                "MiB. What its turns have stored expires; try again later."
            )
            return Refusal("busy", message, _RETRY_AFTER_MS, limit="team_store")
        if self.use.total > _FOR_NEW_TURNS * self.size:
            message = "The platform's store is almost full, and takes no further turn. Try again later."
            return Refusal("busy", message, _RETRY_AFTER_MS, limit="store")
        return None

    async def measure(self) -> None:
        """Measure once. When the broker does not answer, what is known holds."""
        before = self._over()
        try:
            await self.use.measure(self._most)
        except Unavailable as error:
            log.debug("the store cannot be measured", extra={"reason": error.message})
        for team in self._over() - before:
            log.warning(
                "a team has used up its share of the store", extra={"team": team, "bytes": self.use.teams[team]}
            )

    @property
    def _most(self) -> int:
        return int(self.share * self.size)

    def _over(self) -> set[str]:
        return {team for team, taken in self.use.teams.items() if taken > self._most}


@asynccontextmanager
async def watch_store(bus: Bus, size: int = STORE_BYTES, share: float = TEAM_SHARE) -> AsyncGenerator[StoreShares]:
    """Keep measuring inside the block."""
    shares = StoreShares(StoreUse(bus), size, share)
    async with polling(bus, shares.measure, MEASURED_EVERY):
        yield shares


_WANTED = 32
"""Messages of a stream that are read at a time, and the last of which are kept: four times as many."""

_MOST_TRIES = 4 * _WANTED
"""Positions that are tried at a time: where messages have been removed, most of them are empty."""

_AT_ONCE = 8
_OF_A_MESSAGE = 40
"""Bytes that the store adds to a message."""
