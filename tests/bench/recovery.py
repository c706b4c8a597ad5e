"""How long a caller receives nothing when a process dies: a worker is killed, or a gateway is left for another one.

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
_PARAMS: dict[str, Any] = {"name": "run", "arguments": {}, "_meta": {"progressToken": 1}}


def measure_kills(folder: Path, kills: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Kill -9 the worker of a turn, again and again: seconds until the caller receives something of the next one."""
    with ExitStack() as parts, httpx.Client(timeout=_ANSWERS_WITHIN) as http:
        url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        workers = parts.enter_context(stack.workers(folder, url, count=3, team=TEAM))
        until_it_runs(http, gateway)
        silences: list[float] = []
        for number in range(1, kills + 1):
            report(f"kill {number} of {kills}")
            with streamed(http, gateway) as response:
                pids = instances_named(response)
                first = next(pids)
                os.kill(int(first), signal.SIGKILL)
                killed = time.perf_counter()
                next(pid for pid in pids if pid != first)
                silences.append(time.perf_counter() - killed)
            workers[:] = [worker for worker in workers if worker.pid != int(first)]
            workers += parts.enter_context(stack.workers(folder, url, count=1, team=TEAM))
    return figures(silences)


def measure_resumes(folder: Path, times: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Leave a call at one gateway and go on at another, with its key or behind its last event: seconds until a word.

    What was reported meanwhile is sent at once; a turn reports something every 50 ms.
    """
    with ExitStack() as parts, httpx.Client(timeout=_ANSWERS_WITHIN) as http:
        url, _ = parts.enter_context(stack.broker())
        one, other = (parts.enter_context(stack.gateway(folder, url)) for _ in range(2))
        parts.enter_context(stack.workers(folder, url, team=TEAM))
        until_it_runs(http, one)
        until_it_runs(http, other)
        report(f"{times} calls are left at one gateway and made again at another")
        rejoined = [_rejoin(http, one, other) for _ in range(times)]
        report(f"{times} streams are left at one gateway and resumed at another")
        resumed = [_resume(http, one, other) for _ in range(times)]
    return {"key": figures(rejoined), "event_id": figures(resumed)}


def _rejoin(http: httpx.Client, one: Process, other: Process) -> float:
    key = uuid.uuid4().hex
    with streamed(http, one, key) as response:
        next(instances_named(response))
    asked = time.perf_counter()
    with streamed(http, other, key) as response:
        next(instances_named(response))
        took = time.perf_counter() - asked
    params = {"name": _PARAMS["name"], "_meta": {"pallas/idempotency-key": key, "pallas/cancel": True}}
    body, headers = wire.modern("tools/call", params)
    http.post(_url(other), json=body, headers=headers)
    return took


def _resume(http: httpx.Client, one: Process, other: Process) -> float:
    session = _session(http, one)
    body, headers = wire.legacy("tools/call", _PARAMS, session)
    with http.stream("POST", _url(one), json=body, headers=headers) as response:
        lines = response.iter_lines()
        last = next(line[3:].strip() for line in lines if line.startswith("id:"))
        next(line for line in lines if "notifications/progress" in line)
    headers = {"accept": "text/event-stream", "mcp-protocol-version": headers["mcp-protocol-version"]}
    asked = time.perf_counter()
    with http.stream("GET", _url(other), headers=headers | {"last-event-id": last}) as response:
        next(instances_named(response))
        took = time.perf_counter() - asked
    cancel, headers = wire.legacy("notifications/cancelled", {"requestId": 1}, session, request_id=None)
    http.post(_url(other), json=cancel, headers=headers)
    return took


def _session(http: httpx.Client, gateway: Process) -> str:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    return http.post(_url(gateway), json=body, headers=wire.ACCEPT).headers["mcp-session-id"]


def _url(gateway: Process) -> str:
    return f"http://127.0.0.1:{gateway.port}/teams/steady/mcp/runner"


def streamed(http: httpx.Client, gateway: Process, key: str | None = None) -> AbstractContextManager[httpx.Response]:
    """A call whose stream is read as it comes; without a key, closing it cancels the turn."""
    meta = {"progressToken": 1} | ({"pallas/idempotency-key": key} if key is not None else {})
    body, headers = wire.modern("tools/call", {"name": "run", "arguments": {}, "_meta": meta})
    return http.stream("POST", _url(gateway), json=body, headers=headers)


def instances_named(response: httpx.Response) -> Iterator[str]:
    """The process that each progress notification names."""
    for line in response.iter_lines():
        if line.startswith("data:") and line[5:].strip():
            message: str = str(json.loads(line[5:]).get("params", {}).get("message"))
            if message.isdigit():
                yield message


def until_it_runs(http: httpx.Client, gateway: Process) -> None:
    """Wait until a turn runs.

    Raises:
        RuntimeError: none does in time; with the end of what the gateway has printed.
    """
    deadline = time.monotonic() + _ANSWERS_WITHIN
    while time.monotonic() < deadline:
        with streamed(http, gateway) as response:
            if response.is_success and next(instances_named(response), None) is not None:
                return
        time.sleep(_RETRY)
    raise RuntimeError(f"nothing runs behind {gateway.name}: {gateway.output()[-1000:]}")


def figures(seconds: Sequence[float]) -> dict[str, Any]:
    """The statistics of these times."""
    return {
        "times": len(seconds),
        "p50_s": percentile(seconds, 0.5),
        "p99_s": percentile(seconds, 0.99),
        "seconds": list(seconds),
    }
