"""`python -m tests.bench.scale.load`: keeps turns under way, as gateways and workers would.

It reads its task as JSON from standard input and answers with JSON. The parts of a turn wait for each other as they do
in the platform: delivered, claimed, worked on behind the claim, ended with a fence, acknowledged.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.figures import percentile
from tests.bench.scale import turns
from tests.bench.scale.streams import CONSUMER, LIVE
from tests.bench.scale.wire import Wire, connect, message

from pallas_bus.errors import IN_FLIGHT
from pallas_contracts.catalog import TURN_QUEUE

_PAUSE = 0.005
"""Seconds after which the bus sends an outcome again that a replicated stream does not take yet.

From then on it waits for the answer before it sends the outcome.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """What to do: `readers` connections receive all live messages, as gateways do. `seconds` are behind the warm-up."""

    port: int
    steps: int
    at_once: int
    readers: int
    seconds: float
    warm_up: float = 0.5

    def to_json(self) -> str:
        """As `main` reads it."""
        return json.dumps(asdict(self))


class Turns:
    """The turns under way."""

    def __init__(self, task: Task) -> None:
        self.shape = turns.Shape(task.steps)
        self.latencies: list[float] = []
        self.refused: list[str] = []
        self._count = 0
        self._began: dict[str, float] = {}
        self._deliveries: dict[str, str] = {}
        self._ends: dict[str, bytes] = {}
        self._waiting: set[str] = set()
        self.repeated = 0
        self.wire: Wire | None = None

    def begin(self) -> None:
        """Ask for another turn, and pull one."""
        assert self.wire is not None
        self._count += 1
        turn = f"{time.time_ns():x}x{self._count}"
        self._began[turn] = time.perf_counter()
        pull = f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{CONSUMER}"
        asked = message(pull, b'{"batch":1,"expires":60000000000}', reply="d.0")
        self.wire.send(turns.requested(turn) + asked)

    def arrived(self, subject: str, reply: str, body: bytes) -> None:
        """Go on with a turn."""
        assert self.wire is not None
        if subject.startswith("pallas."):
            turn = body[:64].split()[0].decode()
            self._deliveries[turn] = reply
            self.wire.send(turns.claim(turn))
            return
        if subject.startswith("d."):
            return
        _, turn, part = subject.split(".")
        answer: dict[str, Any] = json.loads(body)
        if (error := answer.get("error")) is not None and part == "o" and error["err_code"] == IN_FLIGHT:
            self.repeated += 1
            asyncio.get_running_loop().call_later(_PAUSE, self.wire.send, self._ends[turn])
        elif error is not None:
            self.refused.append(str(error))
        elif part == "c":
            self._ends[turn] = turns.outcome(turn, answer["seq"])
            together = self._ends[turn] if not self.repeated else b""
            self.wire.send(turns.work(self.shape, turn, answer["seq"]) + together)
            if not together:
                self._waiting.add(turn)
        elif part == "a" and turn in self._waiting:
            self._waiting.discard(turn)
            self.wire.send(self._ends[turn])
        elif part == "o":
            del self._ends[turn]
            self.wire.send(message(self._deliveries.pop(turn), b"+ACK"))
            self.latencies.append(time.perf_counter() - self._began.pop(turn))
            self.begin()


async def run(task: Task) -> dict[str, Any]:
    """Run the task. Returns turns, seconds, latencies in ms, and what was refused."""
    under_way = Turns(task)
    under_way.wire = await connect(task.port, under_way.arrived, "r.*.*", "d.0")
    readers = [await connect(task.port, None, LIVE) for _ in range(task.readers)]
    for _ in range(task.at_once):
        under_way.begin()
    await asyncio.sleep(task.warm_up)
    print("warm", flush=True)
    done, began, heard = len(under_way.latencies), time.perf_counter(), sum(each.received for each in readers)
    await asyncio.sleep(task.seconds)
    latencies, seconds = under_way.latencies[done:], time.perf_counter() - began
    print("over", flush=True)
    return {
        "turns": len(latencies),
        "seconds": seconds,
        "p50_ms": 1000 * percentile(latencies, 0.5),
        "p99_ms": 1000 * percentile(latencies, 0.99),
        "live_bytes": sum(each.received for each in readers) - heard,
        "repeated": under_way.repeated,
        "refused": under_way.refused[:3],
    }


def main() -> None:
    """Read the task and answer."""
    print(json.dumps(asyncio.run(run(Task(**json.loads(sys.stdin.readline()))))))


if __name__ == "__main__":
    main()
