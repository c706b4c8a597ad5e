"""The parts of Pallas under measurement, each a process of its own, with default settings where nothing is said."""

import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.calls import Call
from tests.bench.load_process import Load
from tests.bench.processes import Measured, Process, running
from tests.embedded import NatsServer

TEAM = Path(__file__).parent / "team"
REFUSED = "missing failed: Unknown tool name: 'missing'. No tools available.\n"
"""How the offline model reports a call of a tool that it was not offered."""

_ANSWERS_WITHIN = 30.0
_RETRY = 0.05
_NOTHING: Mapping[str, str] = {}


@contextmanager
def broker() -> Generator[tuple[str, Measured]]:
    """A nats-server with an empty store; yields its URL and its process."""
    with NatsServer() as server:
        yield server.url, Measured("nats-server", server.pid)


@contextmanager
def gateway(folder: Path, nats_url: str, variables: Mapping[str, str] = _NOTHING) -> Generator[Process]:
    """An agent-gateway, with further variables."""
    env = {
        "PALLAS_NATS_URL": nats_url,
        "PALLAS_PORT": "{port}",
        "PALLAS_AGENT_PORTS": "false",
        "PALLAS_LOG_KEY": "for-measurements-only-" * 2,
    }
    with running("agent-gateway", folder, "agent_gateway", env={**env, **_QUICK, **variables}) as process:
        yield process.wait_for("readyz")


@contextmanager
def pool(folder: Path, nats_url: str, variables: Mapping[str, str] = _NOTHING) -> Generator[Process]:
    """A data-pool, with further variables."""
    env = {"PALLAS_NATS_URL": nats_url, "PALLAS_PORT": "{port}"}
    with running("data-pool", folder, "data_pool", env={**env, **_QUICK, **variables}) as process:
        yield process.wait_for("readyz")


def starting_pipelines(
    folder: Path, nats_url: str, variables: Mapping[str, str] = _NOTHING
) -> AbstractContextManager[Process]:
    """A replica of pipelines that has just been started."""
    env = {"PALLAS_NATS_URL": nats_url, "PALLAS_PORT": "{port}"}
    return running("pipelines", folder, "pipelines", env={**env, **_QUICK, **variables})


@contextmanager
def workers(
    folder: Path,
    nats_url: str,
    variables: Mapping[str, str] = _NOTHING,
    *,
    count: int = 1,
    slots: int = 64,
    team: Path = TEAM,
) -> Generator[list[Process]]:
    """Agent-workers that host the benchmark's team, or another; they start at once, for their imports take seconds."""
    with ExitStack() as parts:
        started = [
            parts.enter_context(starting_worker(folder, nats_url, variables, slots=slots, team=team))
            for _ in range(count)
        ]
        yield [process.wait_for("readyz") for process in started]


def starting_worker(
    folder: Path, nats_url: str, variables: Mapping[str, str] = _NOTHING, *, slots: int = 64, team: Path = TEAM
) -> AbstractContextManager[Process]:
    """An agent-worker that has just been started."""
    env = {"PALLAS_NATS_URL": nats_url, "PALLAS_PORT": "{port}", "PALLAS_TEAMS": str(team), "PALLAS_SLOTS": str(slots)}
    return running("agent-worker", folder, "agent_worker", env={**env, **_QUICK, **variables})


_QUICK = {"PALLAS_DRAIN_SECONDS": "1"}
"""Nothing that still runs at the end of a measurement is waited for."""


def llm_call(port: int) -> Call:
    """A turn of the LLM agent: two calls of the model with a refused tool call between them, five lines of progress."""
    return _talk(port, "/tool missing {}\n/say hello", f"{REFUSED}hello", 5)


def slow_llm_call(port: int) -> Call:
    """A turn of the LLM agent whose model takes 200 ms, one line of progress."""
    return _talk(port, "/sleep 0.2\n/say hello", "hello", 1)


def _talk(port: int, message: str, answer: str, progress: int) -> Call:
    return Call(port, "/teams/bench/mcp/talker", "talker", {"message": message}, answer, progress)


def function_call(port: int) -> Call:
    """A turn of the function agent: five lines of progress and an answer."""
    return Call(port, "/teams/bench/mcp/worker", "work", {"message": "hello"}, "done: hello", 5)


def waiting_call(port: int) -> Call:
    """A turn of the function agent that has said something and then waits for longer than any run takes."""
    return Call(port, "/teams/bench/mcp/worker", "wait", {"message": "800"}, "waited", 1)


def until_right(load: Load, call: Call) -> None:
    """Wait until a call is answered as it must be: endpoints open a moment after their worker has published them.

    Raises:
        RuntimeError: it never was; with what was answered instead.
    """
    deadline = time.monotonic() + _ANSWERS_WITHIN
    answer: dict[str, Any] = {}
    while time.monotonic() < deadline:
        answer = load.run(call, 1, 0.05)
        if answer["latencies"] and not answer["wrong"]:
            return
        time.sleep(_RETRY)
    raise RuntimeError(f"no right answer from {call.path}: {answer.get('faults')}")
