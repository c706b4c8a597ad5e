"""The fork server: what it starts is as if the supervisor had executed it, and starts without it, too."""

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from tests.waiting import PATIENCE, eventually, is_gone, soon

from pallas_cli.processes.child import Child, Forked, Launch, adopt_orphans, start
from pallas_cli.processes.forks import PYTHON, ForkServer

SHOWS = """
import ctypes, json, os, random, secrets, sys, uuid
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal))
print(json.dumps({
    "env": dict(os.environ), "folder": os.getcwd(), "arguments": sys.argv[1:], "name": __name__, "parent": os.getppid(),
    "session": os.getsid(0), "pid": os.getpid(), "signal": signal.value, "input": os.readlink("/proc/self/fd/0"),
    "command": open("/proc/self/cmdline").read().strip("\\0").replace("\\0", " "),
    "comm": open("/proc/self/comm").read(),
    "files": sorted(os.listdir("/proc/self/fd")), "collects": __import__("gc").isenabled(),
    "random": [random.random(), str(uuid.uuid4()), secrets.token_hex()],
}), flush=True)
sys.exit(7)
"""
WAITS = "import time\nprint('waits', flush=True)\ntime.sleep(600)"
SEARCHES = r"""
import re
found = 0
for line in open("/proc/self/maps"):
    start, _, end = line.split()[0].partition("-")
    if "rw" in line:
        with open("/proc/self/mem", "rb", 0) as memory:
            memory.seek(int(start, 16))
            found += len(re.findall(rb"a-secret-[0-9a-f]{32}", memory.read(int(end, 16) - int(start, 16))))
print(found, flush=True)
"""
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()"


async def always() -> bool:
    """A process that is ready."""
    return True


class World:
    """A fork server, and starts of programs `NAME.py`, whose output is the log `NAME`."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.lines: list[str] = []
        self.started: list[Child] = []
        self.folder = folder
        self.server = ForkServer(modules, folder / "log" / "server", self.lines.append)

    @property
    def server_pid(self) -> int:
        """Its process id."""
        process = self.server.process
        assert process is not None
        return process.pid

    async def start(self, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Child:
        """Start a program."""
        given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), **(env or {})}
        launch = Launch((*PYTHON, module, *arguments), always, env=given)
        self.started.append(child := await start(launch, self.folder / "log" / module, self.server.fork))
        return child

    async def start_waiting(self) -> Child:
        """Start a program that waits, and wait until it does."""
        child = await self.start("waits")
        await eventually(lambda: child.last_line() == "waits")
        return child

    async def output(self, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Start a program, wait for its end, and return what it has printed."""
        child = await self.start(module, *arguments, env=env)
        await soon(child.ended())
        text = (self.folder / "log" / module).read_bytes()[child.log_offset :]
        return text.decode()


@asynccontextmanager
async def a_world(folder: Path, *modules: str) -> AsyncGenerator[World]:
    """A fork server that imports these modules, and the programs."""
    adopt_orphans()
    for name, text in {"shows": SHOWS, "waits": WAITS, "searches": SEARCHES, "thread": THREAD}.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    world = World(folder, *modules)
    world.server.open()
    try:
        yield world
    finally:
        world.server.close()
        for child in world.started:
            child.kill()
            await soon(child.ended())


@pytest.fixture(autouse=True)
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server finds the programs."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


async def test_a_fork_is_what_an_executed_program_would_be(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        child = await world.start("shows", "--port", "7", env={"ONLY": "mine"})
        assert isinstance(child.process, Forked)
        assert await soon(child.ended()) == 7
        found = json.loads((tmp_path / "log" / "shows").read_text("utf-8"))
        assert found["env"] == {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "ONLY": "mine"}
        assert (found["folder"], found["arguments"], found["name"]) == (os.getcwd(), ["--port", "7"], "__main__")
        assert (found["parent"], found["signal"]) == (os.getpid(), signal.SIGKILL)
        assert found["session"] == found["pid"] == child.pid
        assert (found["command"], found["comm"]) == ("python -P -m shows --port 7", "shows\n")
        assert (found["input"], found["collects"]) == ("/dev/null", True)
        assert found["files"] == ["0", "1", "2", "3"], "nothing of the fork server is open; 3 is the folder itself"
        assert world.lines == []


async def test_forks_have_their_own_random_numbers(tmp_path: Path) -> None:
    async with a_world(tmp_path, "random", "secrets", "uuid") as world:
        one, other = [json.loads(await world.output("shows"))["random"] for _ in range(2)]
        assert not set(one) & set(other)


async def test_the_signal_that_ends_a_fork_is_reported_and_its_group_is_killed(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        child = await world.start_waiting()
        os.kill(child.pid, signal.SIGKILL)
        assert await soon(child.ended()) == -signal.SIGKILL
        child = await world.start_waiting()
        assert await child.stop(PATIENCE)
        assert await child.ended() == -signal.SIGTERM


async def test_secrets_of_a_program_are_not_in_the_memory_of_later_ones(tmp_path: Path) -> None:
    secret = f"a-secret-{uuid.uuid4().hex}"
    async with a_world(tmp_path) as world:
        assert secret in await world.output("shows", env={"SECRET": secret})
        assert int(await world.output("searches", env={"SECRET": secret})) > 0, "the search finds its own"
        assert await world.output("searches") == "0\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_fork_server_that_dies_or_hangs_is_started_again_and_its_forks_go_on(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        before, first = await world.start_waiting(), world.server_pid
        os.kill(first, number)
        with monkeypatch.context() as patched:
            if number == signal.SIGSTOP:
                patched.setattr("pallas_cli.processes.forks._ANSWERS_WITHIN", 0.5)
            else:
                await eventually(lambda: is_gone(first))
            meanwhile = await world.start_waiting()
        after = await world.start_waiting()
        assert world.server_pid != first
        assert isinstance(after.process, Forked)
        assert [each.process.returncode for each in (before, meanwhile, after)] == [None] * 3
        assert len(world.lines) == (number == signal.SIGSTOP)


async def test_a_process_with_threads_forks_nothing_and_programs_are_executed(tmp_path: Path) -> None:
    async with a_world(tmp_path, "thread") as world:
        await eventually(lambda: psutil.Process(world.server_pid).num_threads() > 1)
        found = json.loads(await world.output("shows"))
        assert found["command"].startswith(PYTHON[0])
        assert "another thread" in (tmp_path / "log" / "server").read_text("utf-8")


async def test_elsewhere_than_on_linux_programs_are_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_cli.processes.forks.LINUX", False)
    async with a_world(tmp_path) as world:
        assert json.loads(await world.output("shows"))["command"].startswith(PYTHON[0])
        assert world.server.process is None


async def test_a_program_that_cannot_be_imported_says_so_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('a typing mistake')", "utf-8")
    async with a_world(tmp_path, "broken") as world:
        assert "ValueError: a typing mistake" in await world.output("broken")
        assert "No module named nowhere" in await world.output("nowhere")


async def test_a_fork_of_which_nobody_was_told_does_not_run(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        os.kill(world.server_pid, signal.SIGSTOP)
        asking = asyncio.create_task(world.start("waits"))
        await eventually(world.server.asking.locked)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        mine = [each.name() for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
        assert "waits" not in mine
        assert world.server.process is None


async def test_a_fork_that_cannot_be_watched_is_ended_and_the_program_starts_without_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked, open_one = list[int](), os.pidfd_open

    def refuses_the_first(pid: int, flags: int = 0) -> int:
        forked.append(pid)
        if len(forked) == 1:
            raise OSError("no descriptor")
        return open_one(pid, flags)

    monkeypatch.setattr(os, "pidfd_open", refuses_the_first)
    async with a_world(tmp_path) as world:
        child = await world.start_waiting()
        assert not isinstance(child.process, Forked)
        assert is_gone(forked[0])
        assert "no descriptor" in world.lines[-1]
