"""The supervisor with real processes: start, restart, stop, and no process left."""

import asyncio
import errno
import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr
from tests.waiting import is_gone

from pallas_bus import leaders as leaders_module
from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_bus.leaders import watch_leaders
from pallas_bus.streams import declare
from pallas_cli.broker_config.users import Seeds
from pallas_cli.embedded.servers import EmbeddedNats
from pallas_cli.processes import supervisor as supervisor_module
from pallas_cli.processes.child import Launch
from pallas_cli.processes.probes import answers_ok
from pallas_cli.processes.supervisor import ProcessSpec, StartTimeout, Supervisor
from pallas_cli.refused import Refused
from pallas_cli.stack.ports import free_port
from pallas_contracts.catalog import GATEWAY, TURN_LOG

STAND_IN = str(Path(__file__).with_name("stand_in.py"))


def stand_in(name: str, behaviour: str = "", *, number: int = 1, needs: Collection[str] = ()) -> ProcessSpec:
    """A process of the stack that is a stand-in."""

    async def prepare() -> Launch:
        port = free_port()
        return Launch(
            (sys.executable, "-S", STAND_IN, str(port), behaviour), answers_ok(f"http://127.0.0.1:{port}/readyz")
        )

    return ProcessSpec(name, number, 1, prepare, frozenset(needs))


class Watched:
    """A supervisor whose lines and replacements can be waited for."""

    def __init__(self, logs: Path, *specs: ProcessSpec) -> None:
        self.lines: list[str] = []
        self.replaced = asyncio.Event()
        self.supervisor = Supervisor(specs, logs, self.lines.append, self.replaced.set)

    def pid(self, name: str) -> int:
        """The process id of the first replica."""
        return self.supervisor.pids()[name][0]


@asynccontextmanager
async def started(logs: Path, *specs: ProcessSpec) -> AsyncGenerator[Watched]:
    """Start the processes, stop them at the end, and fail if one is left."""
    watched = Watched(logs, *specs)
    try:
        await watched.supervisor.start(20)
        yield watched
    finally:
        await watched.supervisor.stop(5)
        assert all(is_gone(pid) for pids in watched.supervisor.pids().values() for pid in pids)


async def until(condition: Callable[[], bool], timeout: float = 10.0) -> None:
    """Wait for something that has no event."""
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110 - processes have no event
            await asyncio.sleep(0.02)


async def test_every_process_has_its_own_log_and_session(tmp_path: Path) -> None:
    async with started(tmp_path, stand_in("a"), stand_in("a", number=2), stand_in("b")) as watched:
        pids = watched.supervisor.pids()
        assert [len(pids["a"]), len(pids["b"])] == [2, 1]
        assert {os.getsid(pid) for pid in pids["a"] + pids["b"]} == {*pids["a"], *pids["b"]}
        assert set(os.listdir(tmp_path)) == {"a-1.log", "a-2.log", "b-1.log"}


def parts_of(log: Path) -> dict[str, tuple[str, int]]:
    """The earlier parts of a log: the first character and the mode of each."""
    parts = [path for path in log.parent.iterdir() if path != log]
    return {path.name: (path.read_text()[0], path.stat().st_mode & 0o777) for path in parts}


async def test_a_large_log_is_emptied_and_its_last_parts_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "LARGEST_LOG", 10)
    monkeypatch.setattr(supervisor_module, "CHECK_LOGS_EVERY", 0.01)
    log = tmp_path / "a-1.log"
    async with started(tmp_path, stand_in("a")):
        for number in range(4):
            with log.open("a") as process:
                process.write(f"{number}" * 11)
            await until(lambda: not log.stat().st_size)
    assert parts_of(log) == {"a-1.log.1": ("3", 0o600), "a-1.log.2": ("2", 0o600)}


async def test_a_killed_process_is_replaced_and_reported(tmp_path: Path) -> None:
    async with started(tmp_path, stand_in("a"), stand_in("b")) as watched:
        before = watched.supervisor.pids()
        os.kill(before["a"][0], signal.SIGKILL)
        async with asyncio.timeout(30):
            await watched.replaced.wait()
        after = watched.supervisor.pids()
        assert after["a"] != before["a"]
        assert after["b"] == before["b"]
        assert watched.lines[0] == "a-1 was killed by SIGKILL"
        assert watched.lines[1].startswith("a-1 restarts in 0.")
        assert watched.lines[2] == f"a-1 is ready again (pid {after['a'][0]})"


async def test_a_process_that_refuses_its_settings_stops_the_start_with_its_message(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="b-1: stand-in: PALLAS_THING: is wrong"):
        async with started(tmp_path, stand_in("a"), stand_in("b", "refuse")):
            pass


async def test_a_command_that_cannot_be_executed_stops_the_start(tmp_path: Path) -> None:
    async def prepare() -> Launch:
        return Launch((str(tmp_path / "nothing"),), answers_ok("http://127.0.0.1:1/"))

    with pytest.raises(Refused, match=r"cannot start .*nothing"):
        async with started(tmp_path, ProcessSpec("a", 1, 1, prepare)):
            pass


FULL = OSError(errno.ENOSPC, "No space left on device")


async def test_a_process_that_cannot_be_prepared_stops_the_start(tmp_path: Path) -> None:
    async def prepare() -> Launch:
        raise FULL

    with pytest.raises(Refused, match=r"a-1 cannot be started: .*No space left"):
        async with started(tmp_path, ProcessSpec("a", 1, 1, prepare)):
            pass


async def test_a_failing_preparation_of_a_replacement_is_reported_and_retried(tmp_path: Path) -> None:
    usual, outcomes = stand_in("a").prepare, iter([None, FULL, None])

    async def prepare() -> Launch:
        if (failure := next(outcomes)) is not None:
            raise failure
        return await usual()

    async with started(tmp_path, ProcessSpec("a", 1, 1, prepare)) as watched:
        os.kill(watched.pid("a"), signal.SIGKILL)
        await asyncio.wait_for(watched.replaced.wait(), 20)
        assert any("No space left" in line for line in watched.lines)


async def test_a_start_that_takes_too_long_names_the_process_and_its_log(tmp_path: Path) -> None:
    async def prepare() -> Launch:
        return Launch(("sleep", "600"), answers_ok(f"http://127.0.0.1:{free_port()}/"))

    async def prepare_at_once() -> Launch:
        async def ready() -> bool:
            return True

        return Launch(("sleep", "600"), ready)

    watched = Watched(tmp_path, ProcessSpec("a", 1, 1, prepare_at_once), ProcessSpec("slow", 1, 1, prepare))
    try:
        with pytest.raises(StartTimeout, match=r"slow-1 \(log: .*slow-1.log\)") as error:
            await watched.supervisor.start(2)
        assert "a-1" not in str(error.value)
    finally:
        await watched.supervisor.stop(5)
    assert is_gone(watched.pid("slow"))


async def test_a_process_waits_only_for_the_processes_that_it_needs(tmp_path: Path) -> None:
    usable = asyncio.Event()

    async def prepare() -> Launch:
        async def ready() -> bool:
            return usable.is_set()

        return Launch(("sleep", "600"), ready)

    needed, last = ProcessSpec("needed", 1, 1, prepare), stand_in("last", needs={"needed", "elsewhere"})
    watched = Watched(tmp_path, last, needed, stand_in("other"))
    starting = asyncio.create_task(watched.supervisor.start(20))
    try:
        await until(lambda: watched.supervisor.pids().keys() == {"needed", "other"})
        usable.set()
        await starting
        assert watched.supervisor.pids().keys() == {"last", "needed", "other"}
        assert psutil.Process(watched.pid("other")).create_time() < psutil.Process(watched.pid("last")).create_time()
    finally:
        await watched.supervisor.stop(5)


async def test_a_start_timeout_names_only_the_late_process_and_not_those_that_wait_for_it(tmp_path: Path) -> None:
    async def prepare() -> Launch:
        return Launch(("sleep", "600"), answers_ok(f"http://127.0.0.1:{free_port()}/"))

    watched = Watched(tmp_path, stand_in("waits", needs={"never"}), ProcessSpec("never", 1, 1, prepare))
    try:
        with pytest.raises(StartTimeout) as error:
            await watched.supervisor.start(1)
        assert str(error.value) == f"not ready in time: never-1 (log: {tmp_path}/never-1.log)"
    finally:
        await watched.supervisor.stop(5)
    assert watched.supervisor.pids().keys() == {"never"}


async def test_no_process_starts_after_one_that_it_needs_refused_its_settings(tmp_path: Path) -> None:
    watched = Watched(tmp_path, stand_in("waits", needs={"refuses"}), stand_in("refuses", "refuse"))
    with pytest.raises(Refused):
        await watched.supervisor.start(20)
    await watched.supervisor.stop(5)
    assert watched.supervisor.pids().keys() == {"refuses"}


async def test_a_process_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    watched = Watched(tmp_path, stand_in("deaf", "deaf"))
    await watched.supervisor.start(20)
    await watched.supervisor.stop(0.3)
    assert is_gone(watched.pid("deaf"))
    assert watched.lines[-1].startswith("deaf-1 was killed: still running")


async def test_a_server_stops_after_its_services_and_may_take_longer(tmp_path: Path) -> None:
    watched = Watched(tmp_path, replace(stand_in("server", "slow"), stage=0), stand_in("service"))
    await watched.supervisor.start(20)
    await watched.supervisor.stop(5)
    assert is_gone(watched.pid("server"))
    assert watched.lines == []


async def test_an_urgent_stop_kills_at_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path, stand_in("deaf", "deaf"))
    await watched.supervisor.start(20)
    urgent = asyncio.Event()
    urgent.set()
    async with asyncio.timeout(10):
        await watched.supervisor.stop(600, urgent)
    assert is_gone(watched.pid("deaf"))


async def test_children_of_a_process_are_ended_too(tmp_path: Path) -> None:
    watched = Watched(tmp_path, stand_in("a", "orphan"))
    await watched.supervisor.start(20)
    orphan = int((tmp_path / "a-1.log").read_text().split()[1])
    assert not is_gone(orphan)
    await watched.supervisor.stop(5)
    assert is_gone(orphan)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a death signal")
async def test_processes_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio, pathlib, sys; from pallas_cli.processes import child\n"
        "from pallas_cli.processes.child import Launch\n"
        "async def ready(): return True\n"
        "async def main():\n"
        "    started = await child.start(Launch(('sleep', '600'), ready), pathlib.Path(sys.argv[1]))\n"
        "    print(started.pid, flush=True)\n"
        "    await started.ended()\n"
        "asyncio.run(main())\n"
    )
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(tmp_path / "log")), stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout is not None
    pid = int(await supervisor.stdout.readline())
    supervisor.kill()
    await supervisor.wait()
    await until(lambda: is_gone(pid))


async def test_a_broker_that_could_not_write_to_its_disk_is_not_ready_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for a moment: files of this process cannot grow, and what failed once fails for good."""
    monkeypatch.setattr(supervisor_module, "BROKEN_EVERY", 2.0)
    monkeypatch.setattr(leaders_module, "WRITE_EVERY", 1)
    nats = EmbeddedNats(tmp_path / "nats", Seeds(tmp_path / "seeds"), "k" * 64, free_port(), free_port())
    async with started(tmp_path, ProcessSpec("nats", 1, 1, nats.launch)) as watched:
        access = Access(nats.url, SecretStr(nats.seeds.kept(GATEWAY)))
        async with connect(access, GATEWAY, timeout=2) as bus:
            await declare(bus, TURN_LOG)
            async with watch_leaders(bus, TURN_LOG) as leaders:
                assert leaders.missing() is None
                pid, endless = watched.pid("nats"), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
                await until(lambda: leaders.missing() == "nothing can be stored: TURN_LOG", 40)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, endless)
                await asyncio.wait_for(watched.replaced.wait(), 40)
                assert any("cannot work any more" in line for line in watched.lines)
                await until(lambda: leaders.missing() is None, 40)
