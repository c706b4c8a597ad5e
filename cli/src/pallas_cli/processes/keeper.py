"""Keeps one process of the stack running until it is told to stop.

Before the process has been ready once, an exit with code 2 ends the whole start: that is how a service refuses its
settings. After that, every death is followed by a restart.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError
from time import monotonic

from pallas_cli.processes import child
from pallas_cli.processes.backoff import Backoff
from pallas_cli.processes.child import Child
from pallas_cli.processes.launch import ProcessSpec
from pallas_cli.refused import Refused

_REFUSED_SETTINGS = 2


class Keeper:
    """One process of the stack, over all its restarts."""

    def __init__(self, spec: ProcessSpec, logs: Path, say: Callable[[str], None], replaced: Callable[[], None]) -> None:
        """`say` takes a line for the user; `replaced` is called when a successor can be used."""
        self.spec = spec
        self.log = logs / f"{spec.label}.log"
        self.child: Child | None = None
        self._say = say
        self._replaced = replaced
        self._backoff = Backoff()
        self._first_ready: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether it was told to start."""
        return self._task is not None

    async def start(self) -> None:
        """Start the process and wait until it can be used.

        Raises:
            Refused: it refuses its settings, or cannot be executed.
        """
        self._first_ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(self._first_ready))
        await self._first_ready

    async def stop(self, grace: float) -> bool:
        """Stop the process for good; return whether it went by itself within `grace` seconds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        return self.child is None or await self.child.stop(grace)

    def kill(self) -> None:
        """End the process at once and for good, as a part of stopping."""
        if self._task is not None:
            self._task.cancel()
        if self.child is not None:
            self.child.kill()

    async def _keep(self, first_ready: asyncio.Future[None]) -> None:
        while True:
            started = monotonic()
            try:
                self.child = await child.start(await self.spec.prepare(), self.log)
            except (Refused, OSError, SubprocessError) as error:  # of the last two: a full disk, no more processes
                if not first_ready.done():
                    first_ready.set_exception(error if isinstance(error, Refused) else self._failed(error))
                    return
                self._say(str(self._failed(error)))
            else:
                code = await self._live(self.child, first_ready)
                if code == _REFUSED_SETTINGS and not first_ready.done():
                    first_ready.set_exception(Refused(f"{self.spec.label}: {self.child.last_line() or 'refused'}"))
                    return
                self._say(f"{self.spec.label} {_ending(code)}")
            delay = self._backoff.after(monotonic() - started)
            self._say(f"{self.spec.label} starts again in {delay:.1f} s (log: {self.log})")
            await asyncio.sleep(delay)

    def _failed(self, error: Exception) -> Refused:
        return Refused(f"{self.spec.label} cannot be started: {error or type(error).__name__}")

    async def _live(self, running: Child, first_ready: asyncio.Future[None]) -> int:
        """See one process through its life: report when it can be used, return its exit code."""
        becoming_ready = asyncio.create_task(self._report_ready(running, first_ready))
        try:
            code = await running.ended()
            running.kill()
            return code
        finally:
            becoming_ready.cancel()
            with suppress(asyncio.CancelledError):
                await becoming_ready

    async def _report_ready(self, running: Child, first_ready: asyncio.Future[None]) -> None:
        await running.ready()
        if first_ready.done():
            self._say(f"{self.spec.label} is back (pid {running.pid})")
            self._replaced()
        else:
            first_ready.set_result(None)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
