"""The processes of a storm: each keeps its address over its deaths, as its successor would in production."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
from tests import forks
from tests.chaos.script import DATA_AGENTS
from tests.embedded import NatsServer, free_port

_READY_WITHIN = 60.0
_LOOK_AGAIN = 0.1
SECRET = "for-storms-only-" * 3


class Part:
    """One process, started again and again."""

    def __init__(self, name: str, command: list[str], folder: Path, env: Mapping[str, str], ready: str = "") -> None:
        self.name = name
        self.port = free_port()
        self.lives = 0
        self._command = [word.format(port=self.port) for word in command]
        self._folder = folder
        self._env = env
        self._ready = ready
        self._process: forks.Started | None = None
        self.paused = False
        self._was_ready = False
        self._ends = False

    @property
    def works(self) -> bool:
        """Whether its present process has been ready, is not paused and has no signal to end."""
        return self.up and self._was_ready and not self.paused and not self._ends

    @property
    def instance(self) -> str:
        """The name of the process that runs, or ran last."""
        return f"{self.name}-{self.lives}"

    @property
    def up(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """The log of all its processes."""
        return self._folder / f"{self.name}.log"

    def start(self) -> None:
        """Start it; nothing happens while it runs."""
        if self.up:
            return
        self.lives += 1
        own = {"PALLAS_PORT": str(self.port), "PALLAS_INSTANCE": self.instance}
        with self.log.open("ab") as output:
            env = {**os.environ, **self._env, **own}
            if self._command[:2] == [sys.executable, "-m"]:
                self._process = forks.start(*self._command[2:], env=env, output=output)
            else:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=env,
                    start_new_session=True,
                )
        self.paused = self._was_ready = self._ends = False

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if there is a process."""
        if self._process is not None and self.up:
            if number in (signal.SIGSTOP, signal.SIGCONT):  # with the processes that it has started
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
            self.paused = number == signal.SIGSTOP or (self.paused and number != signal.SIGCONT)
            self._ends = self._ends or number not in (signal.SIGSTOP, signal.SIGCONT)

    async def ended(self) -> None:
        """Wait until the process is gone."""
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    async def ready(self) -> None:
        """Wait until it answers.

        Raises:
            TimeoutError: it did not.
        """
        async with httpx.AsyncClient(timeout=1.0) as http, asyncio.timeout(_READY_WITHIN):
            while True:
                with suppress(httpx.TransportError):
                    answer = await http.get(f"http://127.0.0.1:{self.port}/{self._ready}")
                    if not self._ready or answer.is_success:
                        self._was_ready = True
                        return
                await asyncio.sleep(_LOOK_AGAIN)

    def close(self) -> None:
        """Kill it."""
        if self._process is not None and self.up:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Stage:
    """All parts: a broker, two gateways, three workers, two pools, two replicas of pipelines; a redis, and two workers
    of fast-agent, where there are any; a downstream server, a model and two data agents, which record what they are
    asked.

    `effects` is the file in which every effect is written down, `calls` that of the calls without an effect.
    """

    def __init__(self, folder: Path, team: Path, fast_agent: Path | None) -> None:
        """`fast_agent` is the Python of fast-agent-worker."""
        self.effects, self.calls = folder / "effects", folder / "calls"
        self.nats = NatsServer(folder / "nats", encrypted=True)
        self.counter = _recording("tests.chaos.counter", folder, self.effects, self.calls)
        self.model = _recording("tests.model_server", folder, self.calls)
        common = {
            "PALLAS_NATS_URL": self.nats.url,
            "PALLAS_DRAIN_SECONDS": "3",
            "PALLAS_AGENT_PORTS": "false",
            "PALLAS_TEAMS": str(team),
            "PALLAS_SLOTS": "40",
            "PALLAS_LOG_KEY": SECRET,
            "PALLAS_REQUEST_STATE_KEY": SECRET,
            "CHAOS_EFFECTS": str(self.effects),
            "CHAOS_CALLS": str(self.calls),
            "CHAOS_COUNTER_URL": f"http://127.0.0.1:{self.counter.port}/mcp",
            "CHAOS_MODEL_URL": f"http://127.0.0.1:{self.model.port}/v1",
        }
        self.redis = _redis(folder)
        if self.redis is not None:
            common["PALLAS_REDIS_URL"] = f"redis://127.0.0.1:{self.redis.port}"
        self.gateways = [_service("agent_gateway", number, folder, common) for number in (1, 2)]
        self.workers = [_service("agent_worker", number, folder, common) for number in (1, 2, 3)]
        self.fast_agents = [
            _service("fast_agent_worker", number, folder, common, fast_agent) for number in (1, 2) if fast_agent
        ]
        self.pools = [_service("data_pool", number, folder, common) for number in (1, 2)]
        self.pipelines = [_service("pipelines", number, folder, common) for number in (1, 2)]
        ports = [str(pool.port) for pool in self.pools]
        self.data_agents = [
            _data_agent(name, folder, file, ports)
            for name, file in zip(DATA_AGENTS, (self.effects, self.calls), strict=True)
        ]

    @property
    def parts(self) -> list[Part]:
        """Everything but the broker."""
        others = [self.counter, self.model, *([self.redis] if self.redis is not None else [])]
        workers = [*self.workers, *self.fast_agents]
        return [*others, *self.gateways, *workers, *self.pools, *self.pipelines, *self.data_agents]

    async def start(self) -> None:
        """Start everything and wait until it can be used."""
        await asyncio.to_thread(self.nats.start)
        for part in self.parts:
            part.start()
        await self.ready()

    async def heal(self) -> None:
        """Let everything run that does not, and wait until it can be used."""
        for part in self.parts:
            part.send(signal.SIGCONT)
            part.start()
        await self.ready()

    async def ready(self) -> None:
        """Wait until every service can be used."""
        await asyncio.gather(*(part.ready() for part in self.parts if part is not self.redis))

    def close(self) -> None:
        """End everything."""
        for part in self.parts:
            part.close()
        self.nats.close()


def _recording(module: str, folder: Path, *files: Path) -> Part:
    return Part(module.rpartition(".")[2], [sys.executable, "-m", module, "{port}", *map(str, files)], folder, {})


def _service(
    module: str, number: int, folder: Path, env: Mapping[str, str], python: str | Path = sys.executable
) -> Part:
    name = f"{module.removeprefix('agent_')}-{number}"
    return Part(name, [str(python), "-m", module], folder, env, "readyz")


async def find_fast_agent() -> Path | None:
    """The Python of fast-agent-worker, where its environment can be made."""
    from pallas_cli.processes.fast_agent import fast_agent_python
    from pallas_cli.refused import Refused

    try:
        return await asyncio.to_thread(fast_agent_python, os.environ, print)  # it runs a loop of its own
    except Refused as refused:
        print(f"no agents of fast-agent: {refused}")
        return None


def _data_agent(name: str, folder: Path, file: Path, pools: Sequence[str]) -> Part:
    return Part(name, [sys.executable, "-m", "tests.chaos.data_agent", "{port}", name, str(file), *pools], folder, {})


def _redis(folder: Path) -> Part | None:
    """A redis-server, where this environment has one."""
    from pallas_cli.embedded.servers import EmbeddedRedis
    from pallas_cli.refused import Refused

    try:
        binary = EmbeddedRedis.binary()
    except Refused:
        return None
    options = ["--bind", "127.0.0.1", "--port", "{port}", "--dir", str(folder), "--appendonly", "yes", "--save", ""]
    return Part("redis", [str(binary), *options], folder, {})
