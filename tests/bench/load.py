"""The load process: `python -m tests.bench.load` reads one JSON command a line and answers one JSON line each.

`run` keeps `concurrency` calls under way until its time is over and lets those finish; `floor` does so with the broker,
`ask` with questions that a service answers over it.
`hold` opens calls that do not end, answers when each of them has received something, and keeps them until `release`.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.bench.asked import Asked, NothingLeft
from tests.bench.calls import Call, fault_of
from tests.bench.http_client import HttpConnection, connect

from pallas_contracts.errors import PallasError

_ANSWERS_WITHIN = 60.0


@dataclass
class Tally:
    """What a run has seen: the latency of each right answer in seconds, and the first faults of the others."""

    latencies: list[float] = field(default_factory=list[float])
    wrong: int = 0
    faults: list[str] = field(default_factory=list[str])

    def note(self, fault: str) -> None:
        """Count a wrong answer."""
        self.wrong += 1
        if len(self.faults) < 3:
            self.faults.append(fault)


async def run(call: Call, concurrency: int, seconds: float) -> dict[str, Any]:
    """Measure one call in a closed loop."""
    requests = await _in_sessions(call, concurrency) if call.sessions else [call.modern()] * concurrency
    connections = [await connect(call.port) for _ in requests]
    try:
        return await _closed_loop(
            [partial(each.ask, request) for each, request in zip(connections, requests, strict=True)],
            seconds,
            lambda answer: fault_of(call, answer),
        )
    finally:
        for connection in connections:
            connection.close()


_OPENED: dict[int, list[bytes]] = {}
"""A request in each session that has been opened, by port."""


async def _in_sessions(call: Call, count: int) -> Sequence[bytes]:
    opened = _OPENED.setdefault(call.port, [])
    opened += await asyncio.gather(*(_in_session(call) for _ in range(count - len(opened))))
    return opened[:count]


async def _in_session(call: Call) -> bytes:
    """Open a session and make a first call in it."""
    connection = await connect(call.port)
    session = (await connection.ask(call.initialize())).session
    await connection.ask(call.initialized(session))
    request = call.legacy(1, session)
    await connection.ask(request)
    connection.close()
    return request


async def run_floor(kind: str, url: str, concurrency: int, seconds: float) -> dict[str, Any]:
    """Measure a floor of the broker in a closed loop."""
    from tests.bench.floors import floor

    from pallas_bus.connection import connect as connect_bus

    async with connect_bus(url, "bench") as bus:
        return await _closed_loop([await floor(bus, kind)] * concurrency, seconds, lambda _answer: None)


async def run_questions(asked: Asked, concurrency: int, seconds: float) -> dict[str, Any]:
    """Measure questions over the broker in a closed loop; without `seconds` each of them is asked once."""
    from pallas_bus.connection import connect as connect_bus

    async with connect_bus(asked.url, "bench") as bus:
        return await _closed_loop(
            asked.asks(bus, concurrency, once=not seconds), seconds or _ANSWERS_WITHIN, asked.fault_of
        )


async def _closed_loop[A](
    asks: Sequence[Callable[[], Awaitable[A]]], seconds: float, check: Callable[[A], str | None]
) -> dict[str, Any]:
    """Repeat each ask until the time is over. The run ends with the last answer: its rate is all work over all time."""
    tally = Tally()
    began = time.perf_counter()
    try:
        async with asyncio.timeout(seconds + _ANSWERS_WITHIN):
            await asyncio.gather(*(_repeat(ask, began + seconds, check, tally) for ask in asks))
    except TimeoutError:
        tally.note("answers were still missing after a minute")
    took = time.perf_counter() - began
    return {"seconds": took, "latencies": tally.latencies, "wrong": tally.wrong, "faults": tally.faults}


async def _repeat[A](
    ask: Callable[[], Awaitable[A]], until: float, check: Callable[[A], str | None], tally: Tally
) -> None:
    while (asked := time.perf_counter()) < until:
        try:
            answer = await ask()
        except NothingLeft:
            return
        except (OSError, PallasError) as error:
            tally.note(f"{type(error).__name__}: {error}")
            return
        latency = time.perf_counter() - asked
        if (fault := check(answer)) is None:
            tally.latencies.append(latency)
        else:
            tally.note(fault)


class Held:
    """Calls that are kept open. An answer that ends is a fault: nothing here is meant to end."""

    def __init__(self) -> None:
        self.connections: list[HttpConnection] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.ended: list[str] = []

    async def more(self, call: Call, count: int, *, legacy: bool) -> dict[str, Any]:
        """Open `count` further calls and wait until each has been sent the first piece of its answer."""
        session = await self._session(call) if legacy else None
        gate = asyncio.Semaphore(128)
        async with asyncio.timeout(4 * _ANSWERS_WITHIN):
            await asyncio.gather(*(self._open(call, number, gate, session, legacy) for number in range(count)))
        return {"held": len(self.connections), "ended": len(self.ended), "faults": self.ended[:3]}

    async def _session(self, call: Call) -> str | None:
        connection = await connect(call.port)
        answer = await connection.ask(call.initialize())
        connection.close()
        return answer.session

    async def _open(self, call: Call, number: int, gate: asyncio.Semaphore, session: str | None, legacy: bool) -> None:
        answered = asyncio.Event()
        number += len(self.connections) + 1
        request = call.legacy(number, session) if legacy else call.modern(number)
        async with gate:
            connection = await connect(call.port, lambda _size: answered.set())
            self.connections.append(connection)
            self.tasks.append(asyncio.create_task(self._wait(connection, request, answered)))
            await answered.wait()

    async def _wait(self, connection: HttpConnection, request: bytes, answered: asyncio.Event) -> None:
        try:
            answer = await connection.ask(request)
            self.ended.append(answer.body[:300].decode(errors="replace"))
        except OSError as error:
            self.ended.append(type(error).__name__)
        finally:
            answered.set()

    async def release(self) -> dict[str, Any]:
        """Close them all."""
        ended = list(self.ended)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for connection in self.connections:
            connection.close()
        count = len(self.connections)
        self.__init__()
        return {"held": count, "ended": len(ended), "faults": ended[:3]}


async def obey() -> None:
    """Carry out commands until standard input ends."""
    held = Held()
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command = json.loads(line)
        match command["do"]:
            case "run":
                answer = await run(Call.from_json(command["call"]), command["concurrency"], command["seconds"])
            case "floor":
                answer = await run_floor(command["kind"], command["url"], command["concurrency"], command["seconds"])
            case "ask":
                asked = Asked.from_json(command["asked"])
                answer = await run_questions(asked, command["concurrency"], command["seconds"])
            case "hold":
                call = Call.from_json(command["call"])
                answer = await held.more(call, command["count"], legacy=command["legacy"])
            case _:
                answer = await held.release()
        print(json.dumps(answer), flush=True)


def main() -> None:
    """Raise the limit of open files and obey."""
    import uvloop

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(obey())


if __name__ == "__main__":
    main()
