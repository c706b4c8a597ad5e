"""Starts the processes of a stack in the order of their needs, keeps them running and stops them in stages.

A service that refuses its settings exits with code 2. If that happens before the process was ready once, the start of
the stack fails. Every other exit is followed by a restart.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from subprocess import SubprocessError
from time import monotonic

from pallas_cli.private_files import PRIVATE
from pallas_cli.processes.child import Child, Fork, Launch, Probe, adopt_orphans, start
from pallas_cli.processes.forks import ForkServer
from pallas_cli.refused import Refused

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
STEADY, QUIET = 1.0, 30.0
"""A process that was ready for `STEADY` seconds is restarted at once, unless it had also ended in the `QUIET` seconds
before: once is an accident, and not its settings."""

BROKEN_EVERY = 3.0
BROKEN_TIMES = 4
"""A process that says so often, with so many seconds between, that it cannot work is started again."""

LARGEST_LOG = 10 * 1024 * 1024
"""Bytes of a log; a burst within `CHECK_LOGS_EVERY` seconds may exceed them."""
EARLIER_LOGS = 2
"""How many earlier parts of a log are kept: `.1` and `.2`."""
CHECK_LOGS_EVERY = 2.0

_REFUSED_SETTINGS = 2
_BROKEN_GRACE = 10.0
_LAST_STAGES_GRACE = 10.0
"""Seconds to stop the later stages, for example a Postgres that writes its last checkpoint to a slow disk."""


class StartTimeout(Exception):
    """Some processes were not ready in time. The message names them and their logs."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process that the stack keeps running.

    `name` is the key in the ready file; `number` (from 1) numbers the replicas. Stages stop in descending order. Within
    a stage, stop signals are sent in the order of the specs. `prepare` is called before every start, so a restarted
    process may get another port, and its files are written again. The process is started when all processes in `needs`
    are ready; names that are not in this stack run elsewhere and are ignored.
    """

    name: str
    number: int
    stage: int
    prepare: Callable[[], Awaitable[Launch]]
    needs: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The name of this process in messages, and of its log file."""
        return f"{self.name}-{self.number}"


class Supervisor:
    """The processes of one stack, in the order of their specs."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        logs: Path,
        report: Callable[[str], None],
        on_restart: Callable[[], None],
        forks: ForkServer | None = None,
    ) -> None:
        """`report` prints a line for the user; `on_restart` is called when a restarted process is ready.

        Python programs are started by `forks`, which ends with the stack.
        """
        fork = forks.fork if forks is not None else None
        self._keepers = [_Keeper(spec, logs, report, on_restart, fork) for spec in specs]
        self._forks = forks
        self._report = report
        self._others: frozenset[int] = frozenset()
        self._rotating: asyncio.Task[None] | None = None

    def pids(self) -> dict[str, list[int]]:
        """Return the current process ids by name, in the order of the replicas."""
        pids: dict[str, list[int]] = {}
        for keeper in self._keepers:
            if keeper.child is not None:
                pids.setdefault(keeper.spec.name, []).append(keeper.child.pid)
        return pids

    async def start(self, timeout: float) -> None:
        """Start every process when its needs are ready, and wait until all are ready.

        Raises:
            Refused: a process refuses its settings.
            StartTimeout: a process was not ready within `timeout` seconds.
        """
        adopt_orphans()
        self._others = _descendants()
        if self._forks is not None:
            self._forks.open()
        self._rotating = asyncio.create_task(_rotate_logs([keeper.log for keeper in self._keepers]))
        starting: dict[asyncio.Task[None], _Keeper] = {}
        for keeper in self._keepers:
            starting[asyncio.create_task(_start_behind(keeper, starting))] = keeper
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*starting)
        except TimeoutError:
            late = [keeper for task, keeper in starting.items() if task.cancelled() and keeper.begun]
            names = ", ".join(f"{keeper.spec.label} (log: {keeper.log})" for keeper in late)
            raise StartTimeout(f"not ready in time: {names}") from None
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)

    async def stop(self, drain: float, urgent: asyncio.Event | None = None) -> None:
        """Stop the stages in reverse order: the first within `drain` seconds, each other within 10 s.

        When `urgent` is set, all running processes are killed.
        """
        hurry = asyncio.create_task(self._kill_when(urgent)) if urgent is not None else None
        grace = drain
        for stage in sorted({keeper.spec.stage for keeper in self._keepers}, reverse=True):
            since, keepers = monotonic(), [keeper for keeper in self._keepers if keeper.spec.stage == stage]
            calm = await asyncio.gather(*(keeper.stop(grace) for keeper in keepers))
            for keeper, went in zip(keepers, calm, strict=True):
                if not went:
                    self._report(f"{keeper.spec.label} was killed: still running after {monotonic() - since:.1f} s")
            grace = _LAST_STAGES_GRACE
        for task in (hurry, self._rotating):
            if task is not None:
                task.cancel()
        if self._forks is not None:
            self._forks.close()
        await asyncio.to_thread(_end_descendants, self._others)

    async def _kill_when(self, urgent: asyncio.Event) -> None:
        await urgent.wait()
        for keeper in self._keepers:
            keeper.kill()


class _Keeper:
    """One process of the stack, across its restarts."""

    def __init__(
        self,
        spec: ProcessSpec,
        logs: Path,
        report: Callable[[str], None],
        on_restart: Callable[[], None],
        fork: Fork | None,
    ) -> None:
        self.spec = spec
        self.log = logs / f"{spec.label}.log"
        self.child: Child | None = None
        self._report = report
        self._on_restart = on_restart
        self._fork = fork
        self._ready_at = inf
        self._ended_at = -inf
        self._pause = FIRST_PAUSE
        self._first_ready: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether `start` was called."""
        return self._task is not None

    async def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            Refused: the process refuses its settings, or cannot be executed.
        """
        self._first_ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(self._first_ready))
        await self._first_ready

    async def stop(self, grace: float) -> bool:
        """Stop the process permanently; return whether it stopped within `grace` seconds without being killed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        return self.child is None or await self.child.stop(grace)

    def kill(self) -> None:
        """Kill the process permanently, as a part of a stop."""
        if self._task is not None:
            self._task.cancel()
        if self.child is not None:
            self.child.kill()

    async def _keep(self, first_ready: asyncio.Future[None]) -> None:
        while True:
            self._ready_at = inf
            try:
                self.child = await start(await self.spec.prepare(), self.log, self._fork)
            except (Refused, OSError, SubprocessError) as error:  # such as a full disk or the limit of processes
                failed = Refused(f"{self.spec.label} cannot be started: {error or type(error).__name__}")
                if not first_ready.done():
                    first_ready.set_exception(error if isinstance(error, Refused) else failed)
                    return
                self._report(str(failed))
            else:
                code = await self._watch(self.child, first_ready)
                if code == _REFUSED_SETTINGS and not first_ready.done():
                    first_ready.set_exception(Refused(f"{self.spec.label}: {self.child.last_line() or 'refused'}"))
                    return
                self._report(f"{self.spec.label} {_ending(code)}")
            before, self._ended_at = self._ended_at, monotonic()
            pause, self._pause = pause_after(self._ended_at - self._ready_at, self._ended_at - before, self._pause)
            self._report(f"{self.spec.label} restarts in {pause:.1f} s (log: {self.log})")
            await asyncio.sleep(pause)

    async def _watch(self, running: Child, first_ready: asyncio.Future[None]) -> int:
        """Wait for the end of one process and return its exit code; report when it is ready, and end it when broken."""
        watching = [asyncio.create_task(self._report_ready(running, first_ready))]
        if (broken := running.launch.broken) is not None:
            watching.append(asyncio.create_task(self._end_when_broken(running, broken)))
        try:
            code = await running.ended()
            running.kill()
            return code
        finally:
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)

    async def _report_ready(self, running: Child, first_ready: asyncio.Future[None]) -> None:
        await running.ready()
        self._ready_at = monotonic()
        if first_ready.done():
            self._report(f"{self.spec.label} is ready again (pid {running.pid})")
            self._on_restart()
        else:
            first_ready.set_result(None)

    async def _end_when_broken(self, running: Child, broken: Probe) -> None:
        times = 0
        while times < BROKEN_TIMES:
            await asyncio.sleep(BROKEN_EVERY)
            times = times + 1 if await broken() else 0
        self._report(f"{self.spec.label} cannot work any more and is ended (log: {self.log})")
        await running.stop(_BROKEN_GRACE)


async def _start_behind(keeper: _Keeper, starting: Mapping[asyncio.Task[None], _Keeper]) -> None:
    """Start a process when its needs are ready. It is not started if one of them failed."""
    needed = [task for task, other in starting.items() if other.spec.name in keeper.spec.needs]
    if needed:
        await asyncio.wait(needed)
    if all(task.exception() is None for task in needed):
        await keeper.start()


def pause_after(uptime: float, apart: float, pause: float) -> tuple[float, float]:
    """The seconds before a process is restarted that was ready for `uptime` seconds, and those of the next time.

    It had ended `apart` seconds before, too. They double from 0.2 s to 5 s.
    """
    accident = uptime >= STEADY and apart >= QUIET
    return (0.0, FIRST_PAUSE) if accident else (pause, min(2 * pause, LONGEST_PAUSE))


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


async def _rotate_logs(logs: Sequence[Path]) -> None:
    """Rotate logs that become too large, until this is cancelled."""
    while True:
        await asyncio.sleep(CHECK_LOGS_EVERY)
        for log in logs:
            with suppress(OSError):
                await asyncio.to_thread(_rotate, log)


def _rotate(log: Path) -> None:
    """Empty a log that is too large, and keep its text as an earlier part, if there is room on the disk.

    Its process goes on writing to the file that it was started with, so the text is copied.
    """
    if log.stat().st_size <= LARGEST_LOG:
        return
    parts = [log.with_name(f"{log.name}.{number}") for number in range(EARLIER_LOGS, 0, -1)]
    with suppress(OSError):
        for older, newer in pairwise(parts):
            if newer.exists():
                newer.replace(older)
        parts[-1].touch(PRIVATE)
        shutil.copyfile(log, parts[-1])
    os.truncate(log, 0)


def _descendants() -> frozenset[int]:
    import psutil

    return frozenset(process.pid for process in psutil.Process().children(recursive=True))


def _end_descendants(spared: frozenset[int]) -> None:
    """Kill processes that children left behind: orphans become children of this process (see `adopt_orphans`).

    `spared` are the processes that existed before the stack.
    """
    import psutil

    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in spared]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=2)
