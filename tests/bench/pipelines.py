"""Pipelines whose modules run in other processes, beside engines of durable workflows.

Ours are called over MCP at a gateway, and each module is a turn of an agent in a worker. The peers are called in their
own process. None waits for the disk at a step. Also what happens when the process that executes a pipeline is killed,
and what functions of the standard library and `validate` cost.
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from tests.bench import stack
from tests.bench.calls import Call, messages
from tests.bench.figures import percentile
from tests.bench.http_client import connect
from tests.bench.load_process import Load
from tests.bench.peers.durable import CHAIN, FAN_OUT
from tests.bench.processes import Process
from tests.bench.recovery import figures
from tests.bench.tables import table
from tests.e2e import wire
from tests.postgres import PostgresServer

PYTHON = Path(__file__).parents[2] / ".tools" / "durable" / "bin" / "python"
PALLAS, DBOS_STEPS, DBOS_QUEUE, PREFECT, LANGGRAPH = "pallas", "dbos-steps", "dbos-queue", "prefect", "langgraph"
SUBJECTS = {
    PALLAS: "Pallas, each module a turn in another process",
    DBOS_QUEUE: "DBOS, each step a workflow from a queue",
    DBOS_STEPS: "DBOS, steps in the process of the workflow",
    PREFECT: "Prefect, tasks in the process of the flow, sqlite",
    LANGGRAPH: "LangGraph, nodes in its process, sqlite",
}
_VALIDATING = 50
_NODES = 1000
_LONG = 600
_LIVE = 0.03
"""Seconds between two starts of a tool that takes 50 ms, at least, unless they waited to be read."""

_PATH = "/teams/pipelines/mcp/constellation"
_ANSWERS_WITHIN = 60.0
_RETRY = 0.1
_PEER_WITHIN = 600.0

type Report = Callable[[str], None]


def measure(folder: Path, load: Load, times: int, kills: int, report: Report) -> dict[str, Any]:
    """Seconds of a chain and of a fan-out by subject, and the figures that are only ours.

    Raises:
        FileNotFoundError: the peers are not installed; `make bench` does that.
    """
    folder = folder / "pipelines"
    folder.mkdir()
    versions = _versions()
    report("starting Pallas with pipelines")
    with ExitStack() as parts:
        url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        parts.enter_context(stack.workers(folder, url, slots=256))
        replica = parts.enter_context(stack.starting_pipelines(folder, url)).wait_for("readyz")
        _until_known(gateway)
        runs = {
            "chain": _seconds(gateway, chain(CHAIN), CHAIN, times),
            "fan_out": _seconds(gateway, fan_out(FAN_OUT), sum(range(1, FAN_OUT + 1)), times),
        }
        own = {"node_ms": _node_ms(gateway, times), "validate": _validate(load, gateway)}
        silences = _kills(parts, folder, url, gateway, replica, kills, report)
    peers = {name: _peer(name, folder, times, report) for name in (DBOS_STEPS, DBOS_QUEUE, PREFECT, LANGGRAPH)}
    return {"versions": versions, "runs": {PALLAS: runs} | peers, "kill": figures(silences), **own}


def chain(length: int, tool: str = "add") -> str:
    """A program that calls a tool so many times, each with the last answer."""
    lines = ["in x: Int", "v0 = { number: x }"]
    lines += [f"v{number} = bench.worker.{tool}(v{number - 1}.number)" for number in range(1, length + 1)]
    return "\n".join([*lines, f"total = v{length}.number", "out total"])


def fan_out(width: int) -> str:
    """A program that calls a tool for so many items at once."""
    items = ", ".join(map(str, range(width)))
    return f"in x: Int\ntotal = x + list-sum(map([{items}], (i) => bench.worker.add(i).number))\nout total"


def in_process(length: int) -> str:
    """A program of so many functions of the standard library, each of the last result."""
    lines = [f"v{number} = add(v{number - 1}, 1)" for number in range(1, length + 1)]
    return "\n".join(["in x: Int", "v0 = x", *lines, f"total = v{length}", "out total"])


def _params(source: str) -> dict[str, Any]:
    return {"name": "execute", "arguments": {"source": source, "inputs": {"x": 0}}}


def _until_known(gateway: Process) -> None:
    """Wait until pipelines know the tools of the worker."""
    deadline = time.monotonic() + _ANSWERS_WITHIN
    while True:
        try:
            _seconds(gateway, chain(1), 1, 1)
        except (RuntimeError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY)
        else:
            return


def _seconds(gateway: Process, source: str, total: int, times: int) -> list[float]:
    """How long each execution takes for its caller, after one that is not counted."""
    return [seconds for seconds, _ in asyncio.run(_executions(gateway, source, total, times))]


async def _executions(gateway: Process, source: str, total: int, times: int) -> list[tuple[float, dict[str, Any]]]:
    """Seconds and answers.

    Raises:
        RuntimeError: an answer is wrong.
    """
    connection = await connect(gateway.port)
    found: list[tuple[float, dict[str, Any]]] = []
    params = _params(source)
    request = Call(gateway.port, _PATH, params["name"], params["arguments"], "", 0).modern()
    for _ in range(times + 1):
        began = time.perf_counter()
        answer = await connection.ask(request)
        took = time.perf_counter() - began
        result = [*messages(answer)][-1].get("result", {})
        given: dict[str, Any] = result.get("structuredContent") or {}
        if given.get("outputs") != {"total": total}:
            raise RuntimeError(f"another answer: {json.dumps(result)[:500]}")
        found.append((took, given))
    connection.close()
    return found[1:]


def _node_ms(gateway: Process, times: int) -> float:
    """Milliseconds for a function of the standard library, by the execution's own account."""
    ran = asyncio.run(_executions(gateway, in_process(_NODES), _NODES, times))
    return percentile([answer["metrics"]["executeTimeMs"] for _, answer in ran], 0.5) / _NODES


def _validate(load: Load, gateway: Process) -> dict[str, Any]:
    """Check a program of 10 modules for many callers at once."""
    call = Call(gateway.port, _PATH, "validate", {"source": chain(CHAIN)}, '{"valid": true, "warnings": []}', 0)
    load.run(call, _VALIDATING, 0.5)
    measured = load.run(call, _VALIDATING, 3.0)
    latencies = measured["latencies"]
    return {
        "callers": _VALIDATING,
        "p50_ms": 1000 * percentile(latencies, 0.5),
        "p95_ms": 1000 * percentile(latencies, 0.95),
        "per_second": len(latencies) / measured["seconds"],
        "wrong": measured["wrong"],
        "faults": measured["faults"],
    }


def _kills(
    parts: ExitStack, folder: Path, url: str, gateway: Process, replica: Process, kills: int, report: Report
) -> list[float]:
    """Kill -9 the only replica in the middle of a chain, when another one has started, again and again.

    Returns the seconds until the next module starts, as the caller is told.
    """
    silences: list[float] = []
    body, headers = wire.modern("tools/call", _params(chain(_LONG, "add_slowly")) | {"_meta": {"progressToken": 1}})
    url_of_agent = f"http://127.0.0.1:{gateway.port}{_PATH}"
    for number in range(1, kills + 1):
        report(f"kill {number} of {kills} of a replica of pipelines")
        with (
            httpx.Client(timeout=_ANSWERS_WITHIN) as http,
            http.stream("POST", url_of_agent, json=body, headers=headers) as response,
        ):
            starts = (time.perf_counter() for line in response.iter_lines() if "add_slowly: started" in line)
            before = next(starts)
            other = parts.enter_context(stack.starting_pipelines(folder, url)).wait_for("readyz")
            while (now := next(starts)) - before < _LIVE:  # what has come meanwhile
                before = now
            os.kill(replica.pid, signal.SIGKILL)
            silences.append(next(at for at in starts if at - now > _LIVE) - now)
        replica = other
    return silences


def _peer(name: str, folder: Path, times: int, report: Report) -> dict[str, list[float]]:
    """The seconds of a peer."""
    report(f"{name}: a chain and a fan-out")
    own = folder / name
    own.mkdir()
    with ExitStack() as parts:
        postgres: list[str] = []
        if name.startswith("dbos"):
            server = parts.enter_context(PostgresServer(own / "postgres"))
            postgres.append(asyncio.run(server.new_database()))
        command = [str(PYTHON), "-m", "tests.bench.peers.durable", name, str(times), str(own), *postgres]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PEER_WITHIN)
    if ran.returncode:
        raise RuntimeError(f"{name} failed:\n{ran.stderr[-2000:]}")
    found: dict[str, list[float]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _versions() -> dict[str, str]:
    names = ("dbos", "prefect", "langgraph")
    code = f"import importlib.metadata as it, json; print(json.dumps({{n: it.version(n) for n in {names!r}}}))"
    ran = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


def section(found: dict[str, Any]) -> str:
    """The tables."""
    rows = [
        (
            f"{SUBJECTS[name]}",
            f"{1000 * percentile(found['runs'][name]['chain'], 0.5):.1f}",
            f"{1000 * percentile(found['runs'][name]['fan_out'], 0.5):.0f}",
            f"{children_per_second(found['runs'][name]):.0f}",
        )
        for name in SUBJECTS
    ]
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    validate, kill = found["validate"], found["kill"]
    note = (
        f"{versions}. A module adds one to a number. Ours are called over MCP at a gateway, and run in a worker; the "
        "peers are called in their own process. Nobody waits for the disk at a step."
    )
    more = (
        f"A function of the standard library takes {found['node_ms']:.4f} ms, in a program of {_NODES}. "
        f"`validate` of a program of {CHAIN} modules over MCP, {validate['callers']} callers at once: "
        f"p50 {validate['p50_ms']:.1f} ms, p95 {validate['p95_ms']:.1f} ms, {validate['per_second']:.0f}/s. "
        f"The process of an execution killed (-9) -> its next module starts: p50 {kill['p50_s']:.2f} s, "
        f"{kill['times']} times."
    )
    head = ("subject", f"chain of {CHAIN}, p50 ms", f"fan-out of {FAN_OUT}, p50 ms", "modules/s")
    return f"## Pipelines\n\n{note}\n\n{table(head, rows)}\n\n{more}"


def children_per_second(runs: dict[str, list[float]]) -> float:
    """Modules a second in a fan-out."""
    return FAN_OUT / percentile(runs["fan_out"], 0.5)


def faults(found: dict[str, Any]) -> Generator[str]:
    """What was answered wrong."""
    if found and found["validate"]["wrong"]:
        yield f"validate: {found['validate']['wrong']} wrong, for example {found['validate']['faults'][:1]}"
