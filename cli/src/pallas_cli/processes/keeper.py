"""Keeps one process of the stack running until it is stopped.

A service that refuses its settings exits with code 2. If that happens before the process was ready once, the start of
the stack fails. Every other exit is followed by a restart.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from subprocess import SubprocessError
from time import monotonic

from pallas_cli.processes import child
from pallas_cli.processes.backoff import Backoff
from pallas_cli.processes.child import Child
from pallas_cli.processes.launch import Probe, ProcessSpec
from pallas_cli.refused import Refused

_REFUSED_SETTINGS = 2

BROKEN_EVERY = 3.0
BROKEN_TIMES = 4
"""A process that says so often, with so many seconds between, that it cannot work is started again."""

_STOP_SECONDS = 10.0


class Keeper:
    """One process of the stack, across its restarts."""

    def __init__(
        self, spec: ProcessSpec, logs: Path, report: Callable[[str], None], on_restart: Callable[[], None]
    ) -> None:
        """`report` prints a line for the user; `on_restart` is called when a restarted process is ready."""
        self.spec = spec
        self.log = logs / f"{spec.label}.log"
        self.child: Child | None = None
        self._report = report
        self._on_restart = on_restart
        self._backoff = Backoff()
        self._ready_at = inf
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
                self.child = await child.start(await self.spec.prepare(), self.log)
            except (Refused, OSError, SubprocessError) as error:  # such as a full disk or the limit of processes
                if not first_ready.done():
                    first_ready.set_exception(error if isinstance(error, Refused) else self._failed(error))
                    return
                self._report(str(self._failed(error)))
            else:
                code = await self._watch(self.child, first_ready)
                if code == _REFUSED_SETTINGS and not first_ready.done():
                    first_ready.set_exception(Refused(f"{self.spec.label}: {self.child.last_line() or 'refused'}"))
                    return
                self._report(f"{self.spec.label} {_ending(code)}")
            delay = self._backoff.after(monotonic() - self._ready_at)
            self._report(f"{self.spec.label} restarts in {delay:.1f} s (log: {self.log})")
            await asyncio.sleep(delay)

    def _failed(self, error: Exception) -> Refused:
        return Refused(f"{self.spec.label} cannot be started: {error or type(error).__name__}")

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
        await running.stop(_STOP_SECONDS)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
