"""How long a caller hears nothing when a process dies: a worker that is killed, a gateway that is left for another one.

The turns say which process executes them, twenty times a second, and have no effects: they may be executed again.
"""

import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx
from tests.bench import stack
from tests.bench.figures import percentile
from tests.bench.processes import Process
from tests.e2e import wire

TEAM = Path(__file__).parent / "steady"
_ANSWERS_WITHIN = 60.0
_RETRY = 0.05


def measure_kills(folder: Path, kills: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Kill -9 the worker of a turn, again and again: seconds until the caller hears from the next one."""
    with ExitStack() as parts, httpx.Client(timeout=_ANSWERS_WITHIN) as http:
        url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        workers = parts.enter_context(stack.workers(folder, url, count=3, team=TEAM))
        _until_it_runs(http, gateway)
        silences: list[float] = []
        for number in range(1, kills + 1):
            tell(f"kill {number} of {kills}")
            with _streamed(http, gateway) as response:
                heard = _heard(response)
                first = next(heard)
                os.kill(int(first), signal.SIGKILL)
                killed = time.perf_counter()
                next(pid for pid in heard if pid != first)
                silences.append(time.perf_counter() - killed)
            workers[:] = [worker for worker in workers if worker.pid != int(first)]
            workers += parts.enter_context(stack.workers(folder, url, count=1, team=TEAM))
    return _figures(silences)


def measure_rejoins(folder: Path, times: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Call again with the same idempotency key at another gateway: seconds until its stream says something."""
    with ExitStack() as parts, httpx.Client(timeout=_ANSWERS_WITHIN) as http:
        url, _ = parts.enter_context(stack.broker())
        one, other = (parts.enter_context(stack.gateway(folder, url)) for _ in range(2))
        parts.enter_context(stack.workers(folder, url, team=TEAM))
        _until_it_runs(http, one)
        _until_it_runs(http, other)
        tell(f"{times} calls are left at one gateway and made again at another")
        taken = [_rejoin(http, one, other) for _ in range(times)]
    return _figures(taken)


def _rejoin(http: httpx.Client, one: Process, other: Process) -> float:
    key = uuid.uuid4().hex
    with _streamed(http, one, key) as response:
        next(_heard(response))
    asked = time.perf_counter()
    with _streamed(http, other, key) as response:
        next(_heard(response))
        return time.perf_counter() - asked


def _streamed(http: httpx.Client, gateway: Process, key: str | None = None) -> AbstractContextManager[httpx.Response]:
    """A call whose stream is read as it comes; without a key, closing it cancels the turn."""
    meta = {"progressToken": 1} | ({"pallas/idempotency-key": key} if key is not None else {})
    body, headers = wire.modern("tools/call", {"name": "run", "arguments": {}, "_meta": meta})
    return http.stream("POST", f"http://127.0.0.1:{gateway.port}/teams/steady/mcp/runner", json=body, headers=headers)


def _heard(response: httpx.Response) -> Iterator[str]:
    """The process that each progress notification names."""
    for line in response.iter_lines():
        if line.startswith("data:") and line[5:].strip():
            message: str = str(json.loads(line[5:]).get("params", {}).get("message"))
            if message.isdigit():
                yield message


def _until_it_runs(http: httpx.Client, gateway: Process) -> None:
    deadline = time.monotonic() + _ANSWERS_WITHIN
    while time.monotonic() < deadline:
        with _streamed(http, gateway) as response:
            if response.is_success and next(_heard(response), None) is not None:
                return
        time.sleep(_RETRY)
    raise RuntimeError(f"nothing runs behind {gateway.name}: {gateway.output()[-1000:]}")


def _figures(seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "times": len(seconds),
        "p50_s": percentile(seconds, 0.5),
        "p99_s": percentile(seconds, 0.99),
        "seconds": list(seconds),
    }
