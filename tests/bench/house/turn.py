"""What one plain turn of an LLM agent runs through, in a gateway and a worker that count their own calls."""

import json
import os
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import stack
from tests.bench.calls import Call
from tests.bench.house.size import ROOT, reached
from tests.bench.load_process import load_process
from tests.bench.processes import Process, running
from tests.embedded import NatsServer

_SECONDS = 2.0
_WRITTEN_WITHIN = 10.0
_RETRY = 0.05
_SERVICES = {"agent-gateway": "agent_gateway", "agent-worker": "agent_worker"}


def turn() -> dict[str, str]:
    """The figures, by what they say. A function counts that was called at least once for each turn."""
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory()))
        broker = parts.enter_context(NatsServer())
        load = parts.enter_context(load_process(folder))
        gateway, worker = (parts.enter_context(_counted(name, folder, broker.url)) for name in _SERVICES)
        call = Call(gateway.port, "/teams/bench/mcp/talker", "talker", {"message": "/say hello"}, "hello", 1)
        stack.until_right(load, call)
        load.run(call, 1, _SECONDS)
        for service in (gateway, worker):
            os.kill(service.pid, signal.SIGUSR1)
        turns = len(load.run(call, 1, _SECONDS)["latencies"])
        counts = [_calls(service, folder) for service in (gateway, worker)]
    every = [{place: number for place, number in one.items() if number >= turns} for one in counts]
    files = [{place.rpartition(":")[0] for place in one} for one in every]
    own = {path for path in map(Path, files[0] | files[1]) if path.is_relative_to(ROOT)}
    calls = sum(sum(one.values()) for one in every) / turns
    return {
        "a turn runs through, own files (gateway, worker)": f"{len(own)} ({len(files[0])}, {len(files[1])})",
        "own functions": f"{len(every[0] | every[1])}",
        "own calls": f"{calls:.0f}",
        "files that its imports reach": f"{len(reached(own))}",
    }


@contextmanager
def _counted(service: str, folder: Path, nats_url: str) -> Generator[Process]:
    env = {
        "PALLAS_NATS_URL": nats_url,
        "PALLAS_PORT": "{port}",
        "PALLAS_AGENT_PORTS": "false",
        "PALLAS_LOG_KEY": "for-measurements-only-" * 2,
        "PALLAS_TEAMS": str(stack.TEAM),
        "PALLAS_DRAIN_SECONDS": "1",
    }
    file = folder / f"{service}.json"
    with running(service, folder, "tests.bench.house.counted", _SERVICES[service], str(file), env=env) as process:
        yield process.wait_for("readyz")


def _calls(part: Process, folder: Path) -> dict[str, int]:
    """What a service has counted.

    Raises:
        RuntimeError: it did not write it in time.
    """
    file, deadline = folder / f"{part.name}.json", time.monotonic() + _WRITTEN_WITHIN
    os.kill(part.pid, signal.SIGUSR2)
    while not file.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{part.name} did not write its calls:\n{part.output()[-2000:]}")
        time.sleep(_RETRY)
    return json.loads(file.read_text("utf-8"))
