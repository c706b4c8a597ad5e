"""Latency, turns a second and CPU of all subjects, side by side: rounds go through all of them, so noise hits all."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import floors, stack
from tests.bench.figures import Cell
from tests.bench.load_process import Load
from tests.bench.processes import Measured, Process, cpu_seconds, running

_PEERS = "tests.bench.peers"
_WARM_UP = 0.5

type Measure = Callable[[int, float], dict[str, Any]]

LLM, LLM_SDK, FASTMCP = "pallas-llm", "sdk-llm", "fastmcp"
FUNCTION, FUNCTION_SDK, BARE = "pallas-function", "sdk-function", "starlette"
SUBJECTS = {
    LLM: "Pallas, LLM agent",
    LLM_SDK: "(a) the same agent in process, SDK",
    FASTMCP: "(b) FastMCP, equal tool",
    FUNCTION: "Pallas, function agent",
    FUNCTION_SDK: "the same function in process, SDK",
    BARE: "floor: Starlette, constant JSON",
    floors.ROUND_TRIP: "floor: NATS round trip",
    floors.STORED: "floor: JetStream publish, acknowledged",
}


@dataclass(frozen=True)
class Subject:
    """Something that is measured: `measure(concurrency, seconds)` loads it, `processes` are those that answer."""

    name: str
    measure: Measure
    processes: Sequence[Measured]


@contextmanager
def subjects(folder: Path, load: Load) -> Generator[list[Subject]]:
    """Start everything that is compared, and wait until each answers as it must."""
    with ExitStack() as running_parts:
        enter = running_parts.enter_context
        url, nats = enter(stack.broker())

        def peer(module: str, *arguments: str) -> Process:
            return enter(running(module, folder, f"{_PEERS}.{module}", *(arguments or ("{port}",))))

        agent, function, fastmcp, bare = (
            peer(module) for module in ("sdk_agent", "sdk_function", "fastmcp_tool", "bare")
        )
        echo = peer("echo", url)
        gateway = enter(stack.gateway(folder, url))
        parts = (gateway, *enter(stack.workers(folder, url)), nats)
        for each in (agent, function, fastmcp, bare):
            each.wait_for("")
        llm, work = stack.llm_call(gateway.port), stack.function_call(gateway.port)
        calls = {
            LLM: (llm, parts),
            LLM_SDK: (replace(llm, port=agent.port, path="/mcp"), (agent,)),
            FASTMCP: (replace(work, port=fastmcp.port, path="/mcp"), (fastmcp,)),
            FUNCTION: (work, parts),
            FUNCTION_SDK: (replace(work, port=function.port, path="/mcp"), (function,)),
            BARE: (replace(work, port=bare.port, path="/", tool=None, text='{"hello":"world"}', progress=0), (bare,)),
        }
        for call, _ in calls.values():
            stack.until_right(load, call)

        def measuring(name: str) -> Measure:
            return lambda concurrency, seconds: load.run(calls[name][0], concurrency, seconds)

        def measuring_floor(kind: str) -> Measure:
            return lambda concurrency, seconds: load.floor(kind, url, concurrency, seconds)

        yield [
            *(Subject(name, measuring(name), processes) for name, (_, processes) in calls.items()),
            Subject(floors.ROUND_TRIP, measuring_floor(floors.ROUND_TRIP), (nats, echo)),
            Subject(floors.STORED, measuring_floor(floors.STORED), (nats,)),
        ]


def measure(
    found: Sequence[Subject], concurrencies: Sequence[int], rounds: int, seconds: float, report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Measure every subject at every concurrency in each round. Returns figures by subject and concurrency."""
    cells = {(subject.name, concurrency): Cell() for subject in found for concurrency in concurrencies}
    for subject in found:
        subject.measure(max(1, min(64, *concurrencies)), _WARM_UP)
    for number in range(1, rounds + 1):
        for concurrency in concurrencies:
            report(f"round {number} of {rounds}, concurrency {concurrency}")
            for subject in found:
                before = cpu_seconds(subject.processes)
                run = subject.measure(concurrency, seconds)
                after = cpu_seconds(subject.processes)
                cells[subject.name, concurrency].add(run, {name: after[name] - before[name] for name in after})
    return {
        subject.name: {str(concurrency): cells[subject.name, concurrency].summary() for concurrency in concurrencies}
        for subject in found
    }
