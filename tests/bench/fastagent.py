"""The same agent on Pallas and on fast-agent: a model behind HTTP, a tool of a downstream server, the model again.

All get the same model, which takes no time, and the same server. fast-agent is called in both ways that it has: its
callers have a session each, which keeps an agent with its connections, or every call gets an agent of its own. The
same module is also hosted unchanged by fast-agent-worker, where every turn has agents of its own. An agent without
servers, whose model passes the message through, shows what the agents themselves cost.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import fastagent_start, stack, stepping
from tests.bench.calls import Call
from tests.bench.figures import cell_faults, cell_rows
from tests.bench.load_process import Load
from tests.bench.processes import Measured, Process, running
from tests.bench.stepping import Counted
from tests.bench.tables import table
from tests.bench.throughput import Measure, Subject
from tests.bench.throughput import measure as measure_subjects

from pallas_cli.processes.fast_agent import fast_agent_python

PALLAS, SESSIONS, STATELESS = "pallas-steps", "fast-agent-sessions", "fast-agent-stateless"
HOSTED, PLAIN_HOSTED, PLAIN_STATELESS = "fast-agent-hosted", "fast-agent-plain-hosted", "fast-agent-plain-stateless"
SUBJECTS = {
    PALLAS: "Pallas, LLM agent with a tool",
    SESSIONS: "the same on fast-agent, a session for each caller",
    STATELESS: "the same on fast-agent, stateless",
    HOSTED: "that of fast-agent, unchanged, on fast-agent-worker",
    PLAIN_STATELESS: "an agent without servers on fast-agent, stateless",
    PLAIN_HOSTED: "the same, unchanged, on fast-agent-worker",
}
CONCURRENCIES = (1, 64)
_ROUNDS = 2
"""At most: 64 callers wait for 15 s on two cores, for one answer each."""

_MESSAGE = 'k\n/tool counter/look {"key": "k", "seconds": 0}\n/say hello'
_VERSION = "import importlib.metadata as it; print(it.version('fast-agent-mcp'))"


def measure(folder: Path, load: Load, rounds: int, seconds: float, report: Callable[[str], None]) -> dict[str, Any]:
    """Figures by subject and concurrency, and the version of fast-agent.

    Raises:
        Refused: fast-agent cannot be installed.
    """
    python = fast_agent_python(os.environ, report)
    version = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, check=True).stdout.strip()
    report(f"starting Pallas and fast-agent {version}")
    with _subjects(folder / "fast-agent", load, python) as (found, hosting):
        figures = measure_subjects(found, CONCURRENCIES, min(_ROUNDS, rounds), seconds, report)
        report("making an agent with three servers, and starting from zero and with 20 cards")
        starts = {"builds": fastagent_start.builds(python, hosting.team), "from_zero": hosting.from_zero()}
        starts["cards"] = fastagent_start.ready(hosting.start_cards)
    return {"version": version, "subjects": figures, "starts": starts}


@dataclass(frozen=True, slots=True)
class _Hosting:
    """The worker of a team, how it and one of a folder of cards are started, and a call of its agent with a tool."""

    team: Path
    process: Process
    start: Callable[[], AbstractContextManager[Process]]
    start_cards: Callable[[], AbstractContextManager[Process]]
    call: Call

    def from_zero(self) -> list[float]:
        """Seconds from a call of the agent, while nothing hosts it, to its answer."""
        self.process.stop()
        return fastagent_start.from_zero(self.call, self.start)


@contextmanager
def _subjects(folder: Path, load: Load, python: Path) -> Generator[tuple[list[Subject], _Hosting]]:
    with ExitStack() as parts:
        enter = parts.enter_context
        counts = enter(stepping.counted(folder, model_is_counted=False))
        url, nats = enter(stack.broker())
        gateway = enter(stack.gateway(folder, url))
        worker = enter(stepping.starting_worker(folder, url, counts, {})).wait_for("readyz")
        config = _config(folder, counts)

        def peer(scope: str, agent: str = "stepper") -> tuple[Measured, Call]:
            arguments = ("{port}", str(config), str(folder / f"{scope}-{agent}"), scope, agent)
            module, name = "tests.bench.peers.fastagent", f"fast-agent-{scope}-{agent}"
            process = enter(running(name, folder, module, *arguments, env=_QUIET, python=python))
            process.wait_for("")
            call = replace(ours, port=process.port, path="/mcp", progress=7, sessions=scope == "shared")
            return process, call if agent == "stepper" else replace(_plain(call), progress=3)

        ours = Call(gateway.port, "/teams/steps/mcp/stepper", "stepper", {"message": _MESSAGE}, "hello", 5)
        shared, in_sessions = peer("shared")
        stateless, by_request = peer("request")
        plain, plain_by_request = peer("request", "plain")
        env = {"PALLAS_NATS_URL": url, "PALLAS_PORT": "{port}", "PALLAS_TEAMS": str(_team(folder, config))}
        env |= {"PALLAS_SLOTS": "64"}
        start = partial(running, "fast-agent-worker", folder, "fast_agent_worker", env=env, python=python)
        cards = partial(start, env=env | {"PALLAS_TEAMS": str(_cards(folder, config))})
        hosting = enter(start()).wait_for("readyz")
        hosted = replace(ours, path="/teams/hosted/mcp/stepper")
        calls: dict[str, tuple[Call, tuple[Measured, ...]]] = {
            PALLAS: (ours, (gateway, worker, nats)),
            SESSIONS: (in_sessions, (shared,)),
            STATELESS: (by_request, (stateless,)),
            HOSTED: (hosted, (gateway, hosting, nats)),
            PLAIN_STATELESS: (plain_by_request, (plain,)),
            PLAIN_HOSTED: (_plain(replace(hosted, path="/teams/hosted/mcp/plain")), (gateway, hosting, nats)),
        }

        def measuring(call: Call) -> Measure:
            return lambda concurrency, seconds: load.run(call, concurrency, seconds)

        for call, _ in calls.values():
            stack.until_right(load, call)
        load.run(in_sessions, max(CONCURRENCIES), 0.0)  # opens the sessions
        found = [Subject(name, measuring(call), processes) for name, (call, processes) in calls.items()]
        yield found, _Hosting(folder / "hosted", hosting, start, cards, hosted)


_QUIET = {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_SHOW_SERVER_BANNER": "false"}


def _plain(call: Call) -> Call:
    """The same call of the agent without servers."""
    return replace(call, tool="plain", arguments={"message": "hello"}, progress=1)


def _team(folder: Path, config: Path) -> Path:
    """A folder with a module of fast-agent, and the configuration of the others."""
    team = folder / "hosted"
    team.mkdir()
    shutil.copy(config, team)
    modules = {"stepper": "steps.py", "plain": "steps.py", "three": "three.py"}
    agents = {name: {"module": module} for name, module in modules.items()}
    (team / "agents.yaml").write_text(json.dumps({"agents": agents}), "utf-8")
    (team / "steps.py").write_text(_MODULE, "utf-8")
    (team / "three.py").write_text(_THREE, "utf-8")
    return team


def _cards(folder: Path, config: Path) -> Path:
    """A folder of 20 cards that use a server, and the configuration of the others."""
    team = folder / "cards"
    (team / "agent-cards").mkdir(parents=True)
    shutil.copy(config, team)
    for number in range(20):
        card = f"---\nname: card-{number}\nservers: [counter]\n---\nYou answer.\n"
        (team / "agent-cards" / f"card-{number}.md").write_text(card, "utf-8")
    return team


_MODULE = """
from fast_agent import FastAgent

fast = FastAgent("steps")


@fast.agent("stepper", instruction="You answer in one sentence.", servers=["counter"], use_history=False)
@fast.agent("plain", instruction="You answer.", model="passthrough", use_history=False)
async def main(): ...
"""


_THREE = """
from fast_agent import FastAgent

fast = FastAgent("three")


@fast.agent("three", instruction="You answer.", servers=["counter", "second", "third"], use_history=False)
async def main(): ...
"""


def _config(folder: Path, counts: Counted) -> Path:
    """The configuration of fast-agent. JSON is YAML."""
    model, counter = counts.variables["BENCH_MODEL_URL"], counts.variables["BENCH_COUNTER_URL"]
    path = folder / "fastagent.config.yaml"
    settings = {
        "default_model": "generic.offline",
        "session_history": False,
        "logger": {"type": "none", "progress_display": False, "show_chat": False, "show_tools": False},
        "generic": {"base_url": model, "api_key": "none"},
        "mcp": {"servers": {name: {"transport": "http", "url": counter} for name in ("counter", "second", "third")}},
    }
    path.write_text(json.dumps(settings), "utf-8")
    return path


def section(found: dict[str, Any]) -> str:
    """The table."""
    rows = cell_rows(found["subjects"], SUBJECTS, "1111")
    note = (
        f"fast-agent {found['version']}, served by its own MCP server over Streamable HTTP. A turn is two calls of a "
        "model behind an OpenAI-compatible address and one of a tool behind MCP between them. The model takes no time. "
        "CPU is that of the agent's own processes; the model, the tool's server and the callers are the same for all. "
        "A session of fast-agent runs one call at a time, so each caller has its own, opened before it is measured. "
        "Half of fast-agent's CPU in a session goes into a TLS context that it makes for each call of the model."
    )
    head = ("subject", "callers", "p50 ms", "p99 ms", "turns/s", "CPU a turn, ms")
    return f"## Beside fast-agent\n\n{note}\n\n{table(head, rows)}\n\n{fastagent_start.section(found['starts'])}"


def faults(found: dict[str, Any]) -> Iterator[str]:
    """What was answered wrong."""
    return cell_faults(found.get("subjects", {}), SUBJECTS)
