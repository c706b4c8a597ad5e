"""`agent.execute` of a data agent behind a WebSocket, beside the same function in process behind fastapi-jsonrpc.

Also what idle agents cost: the pool's memory for each connection, and the CPU of their heartbeats.
"""

import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.calls import Call
from tests.bench.figures import cell_faults, cell_rows
from tests.bench.load_process import Load
from tests.bench.processes import Measured, Process, cpu_seconds, running
from tests.bench.tables import table
from tests.bench.throughput import Measure, Subject
from tests.bench.throughput import measure as measure_subjects

PALLAS, PEER = "pallas-data-agent", "fastapi-jsonrpc"
SUBJECTS = {PALLAS: "Pallas, data agent behind a WebSocket", PEER: "the same function in process, fastapi-jsonrpc"}
CONCURRENCIES = (1, 64)
IDLE = 1000
_BEATS = 10
_INTERVAL = 60
_MANY = 10_000
_BEATS_WITHIN = 60.0

type Report = Callable[[str], None]


def measure(folder: Path, load: Load, rounds: int, seconds: float, report: Report) -> dict[str, Any]:
    """Figures by subject and concurrency, and of idle agents."""
    folder = folder / "data-agents"
    folder.mkdir()
    report("starting Pallas, a data agent and fastapi-jsonrpc")
    with _subjects(folder, load) as found:
        figures = measure_subjects(found, CONCURRENCIES, rounds, seconds, report)
    report(f"{IDLE} idle data agents")
    return {"subjects": figures, "idle": _measure_idle(folder)}


@contextmanager
def _subjects(folder: Path, load: Load) -> Generator[list[Subject]]:
    with ExitStack() as parts:
        url, nats = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        pool = parts.enter_context(stack.pool(folder, url))
        agent = parts.enter_context(_agents(folder, pool, 1))
        peer = parts.enter_context(running("jsonrpc_echo", folder, "tests.bench.peers.jsonrpc_echo", "{port}"))
        peer.wait_for("")
        params = {
            "agent_id": "echo-0",
            "function": "echo",
            "input": {"message": "hello"},
            "meta": {"task_id": "bench", "timestamp": "2026-01-01T00:00:00Z"},
        }
        ours = Call(gateway.port, "/rpc", "agent.execute", params, '{"echo":"hello"}', 0, rpc=True)
        calls: dict[str, tuple[Call, tuple[Measured, ...]]] = {
            PALLAS: (ours, (gateway, pool, nats, agent)),
            PEER: (replace(ours, port=peer.port), (peer,)),
        }

        def measuring(call: Call) -> Measure:
            return lambda concurrency, seconds: load.run(call, concurrency, seconds)

        for call, _ in calls.values():
            stack.until_right(load, call)
        yield [Subject(name, measuring(call), processes) for name, (call, processes) in calls.items()]


@contextmanager
def _agents(folder: Path, pool: Process, count: int) -> Generator[Process]:
    arguments = (str(pool.port), str(count), "{port}")
    with running("agents", folder, "tests.bench.peers.ws_agents", *arguments) as agents:
        yield agents.wait_for("ready")


def _measure_idle(folder: Path) -> dict[str, Any]:
    with (
        stack.broker() as (url, nats),
        stack.gateway(folder, url),
        stack.pool(folder, url, {"PALLAS_POOL_AGENTS_EACH": str(IDLE)}) as pool,
    ):
        empty = pool.rss_bytes()
        with _agents(folder, pool, IDLE) as agents:
            used = pool.rss_bytes()
            before = cpu_seconds((pool, nats))
            with urllib.request.urlopen(f"http://127.0.0.1:{agents.port}/beat/{_BEATS}", timeout=_BEATS_WITHIN):
                pass
            after = cpu_seconds((pool, nats))
    beats = IDLE * _BEATS
    spent = sum(after.values()) - sum(before.values())
    return {
        "agents": IDLE,
        "pool_mib": used / 2**20,
        "pool_empty_mib": empty / 2**20,
        "beat_ms": 1000 * spent / beats,
        "core_share": spent / beats * _MANY / _INTERVAL,
    }


def section(found: dict[str, Any]) -> str:
    """The tables."""
    rows = cell_rows(found["subjects"], SUBJECTS, "2202")
    idle = found["idle"]
    note = (
        "A call is `agent.execute` at the gateway's `/rpc`. Ours is a turn: it is stored in the log before it is "
        "executed, and a process of its own answers it over a WebSocket. fastapi-jsonrpc calls the function where the "
        "request arrives."
    )
    beats = (
        f"With {idle['agents']} idle agents, each with a connection of its own, the pool has "
        f"{idle['pool_mib']:.0f} MiB ({idle['pool_empty_mib']:.0f} MiB without). A heartbeat over its connection costs "
        f"{idle['beat_ms']:.3f} ms of CPU in pool and broker: {idle['core_share']:.1%} of a core for {_MANY} agents "
        f"that send one every {_INTERVAL} s."
    )
    head = ("subject", "callers", "p50 ms", "p99 ms", "calls/s", "CPU a call, ms")
    return f"## Data agents\n\n{note}\n\n{table(head, rows)}\n\n{beats}"


def faults(found: dict[str, Any]) -> Iterator[str]:
    """What was answered wrong."""
    return cell_faults(found.get("subjects", {}), SUBJECTS)
