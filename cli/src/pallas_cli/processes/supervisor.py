"""Starts the processes of a stack in the order of their needs, keeps them running and stops them in stages."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

from pallas_cli.processes.after_fork import adopt_orphans
from pallas_cli.processes.keeper import Keeper
from pallas_cli.processes.launch import ProcessSpec
from pallas_cli.processes.log_files import keep_small

_LAST_STAGES_GRACE = 10.0
"""Seconds to stop the later stages, for example a Postgres that writes its last checkpoint to a slow disk."""


class StartTimeout(Exception):
    """Some processes were not ready in time. The message names them and their logs."""


class Supervisor:
    """The processes of one stack, in the order of their specs."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        logs: Path,
        report: Callable[[str], None],
        on_restart: Callable[[], None],
    ) -> None:
        """`report` prints a line for the user; `on_restart` is called when a restarted process is ready."""
        self._keepers = [Keeper(spec, logs, report, on_restart) for spec in specs]
        self._report = report
        self._others: frozenset[int] = frozenset()
        self._tidying: asyncio.Task[None] | None = None

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
        self._tidying = asyncio.create_task(keep_small([keeper.log for keeper in self._keepers]))
        starting: dict[asyncio.Task[None], Keeper] = {}
        for keeper in self._keepers:
            starting[asyncio.create_task(self._start_behind(keeper, starting))] = keeper
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

    async def _start_behind(self, keeper: Keeper, starting: Mapping[asyncio.Task[None], Keeper]) -> None:
        """Start a process when its needs are ready. It is not started if one of them failed."""
        needed = [task for task, other in starting.items() if other.spec.name in keeper.spec.needs]
        if needed:
            await asyncio.wait(needed)
        if all(task.exception() is None for task in needed):
            await keeper.start()

    async def stop(self, drain: float, urgent: asyncio.Event | None = None) -> None:
        """Stop the stages in reverse order: the first within `drain` seconds, each other within 10 s.

        When `urgent` is set, all running processes are killed.
        """
        hurry = asyncio.create_task(self._kill_when(urgent)) if urgent is not None else None
        grace = drain
        for stage in reversed(self._stages()):
            since = monotonic()
            calm = await asyncio.gather(*(keeper.stop(grace) for keeper in stage))
            for keeper, went in zip(stage, calm, strict=True):
                if not went:
                    self._report(f"{keeper.spec.label} was killed: still running after {monotonic() - since:.1f} s")
            grace = _LAST_STAGES_GRACE
        for task in (hurry, self._tidying):
            if task is not None:
                task.cancel()
        await asyncio.to_thread(_end_descendants, self._others)

    def _stages(self) -> list[list[Keeper]]:
        numbers = sorted({keeper.spec.stage for keeper in self._keepers})
        return [[keeper for keeper in self._keepers if keeper.spec.stage == number] for number in numbers]

    async def _kill_when(self, urgent: asyncio.Event) -> None:
        await urgent.wait()
        for keeper in self._keepers:
            keeper.kill()


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
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=2)
