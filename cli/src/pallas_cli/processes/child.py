"""One process that `pallas up` starts: how, in which state it is, and how it ends.

Each has its own session. So Ctrl-C on the terminal reaches only the supervisor, which then stops the others in order.
On Linux the kernel kills them when the supervisor dies, so even `kill -9` of the supervisor leaves no process behind.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pallas_cli.private_files import PRIVATE, private_folder
from pallas_cli.processes.environment import server_environment
from pallas_cli.refused import Refused

_PROBE_INTERVAL = 0.1
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"

type Fork = Callable[[Launch, int], Awaitable[Forked | None]]
"""Starts a process whose output goes to a file descriptor; None if it has to be started as a program."""

type Probe = Callable[[], Awaitable[bool]]
"""Returns whether the process is ready. It never raises."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one process.

    `env` is the whole environment. `rootless` is for servers that refuse to run as root. A
    process whose probe `broken` says so for long cannot mend itself, and is started again.
    """

    command: tuple[str, ...]
    ready: Probe
    broken: Probe | None = None
    env: Mapping[str, str] = field(default_factory=server_environment, repr=False)
    rootless: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL


class Forked:
    """A process that the fork server has started. It is a child of this process, as if this one had started it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        """Wait for the end; return the exit code, or the negative number of the signal that killed it."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal.

        Raises:
            ProcessLookupError: it has ended.
        """
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it.

        Raises:
            ProcessLookupError: it has ended.
        """
        self.send_signal(signal.SIGKILL)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()


@dataclass(frozen=True, slots=True)
class Child:
    """A running process with its log file."""

    launch: Launch
    process: asyncio.subprocess.Process | Forked
    log: Path
    log_offset: int

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    async def ended(self) -> int:
        """Wait for the end; return the exit code, or the negative number of the signal that killed it."""
        return await self.process.wait()

    async def ready(self) -> None:
        """Wait until the process is ready. It never returns for a process that has died: race it with `ended`."""
        while not (self.process.returncode is None and await self.launch.ready()):  # noqa: ASYNC110 - a probe
            await asyncio.sleep(_PROBE_INTERVAL)

    def kill(self) -> None:
        """Kill the process and its process group; does nothing if they have ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self.process.kill()

    async def stop(self, grace: float) -> bool:
        """Send the stop signal, wait `grace` seconds, then kill. Return whether it stopped without being killed."""
        with suppress(ProcessLookupError):
            self.process.send_signal(self.launch.stop_signal)
        try:
            async with asyncio.timeout(grace):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()
            return False
        self.kill()
        return True

    def last_line(self) -> str:
        """Return the last line that this process wrote to its log, or an empty string."""
        with self.log.open("rb") as file:
            file.seek(min(self.log_offset, self.log.stat().st_size))  # the log may have been rotated
            lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


async def start(launch: Launch, log: Path, fork: Fork | None = None) -> Child:
    """Start a process whose output is appended to `log`. File and folder are private to their owner.

    It is started by `fork`, where there is one that can.

    Raises:
        Refused: the command cannot be executed.
    """
    private_folder(log.parent)
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE), "ab") as output:
        os.fchmod(output.fileno(), PRIVATE)
        offset = output.tell()
        process = await fork(launch, output.fileno()) if fork is not None else None
        if process is None:
            process = await _execute(launch, output)
    return Child(launch, process, log, offset)


async def _execute(launch: Launch, output: IO[bytes]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *launch.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=launch.env,
            start_new_session=True,
            preexec_fn=child_setup(launch.orphan_signal, launch.rootless),
        )
    except OSError as error:
        raise Refused(f"cannot start {launch.command[0]}: {error.strerror or error}") from error


def child_setup(orphan_signal: signal.Signals, rootless: bool) -> Callable[[], None] | None:
    """Return the function that `subprocess` runs in the child before exec, or None if there is nothing to do.

    It runs in a fork of a process that may have threads, so it must not import modules or take locks: everything is
    looked up before the fork. With `rootless`, a child of root gets a user namespace in which it is the user `nobody`.
    It keeps its access to root's files, and needs no account and no changed permissions.
    """
    if not LINUX:
        return None
    from pwd import getpwnam

    prctl, supervisor = ctypes.CDLL(None).prctl, os.getpid()
    nobody = getpwnam("nobody").pw_uid if rootless and os.geteuid() == 0 else None

    def setup() -> None:
        if nobody is not None:
            os.unshare(os.CLONE_NEWUSER)
            _write("/proc/self/uid_map", f"{nobody} 0 1")
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/gid_map", f"{nobody} 0 1")
        # A change of credentials clears the death signal, so it comes last.
        prctl(_PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return setup


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def adopt_orphans() -> None:
    """Make this process the parent of orphans of its children, so that it can find and end them."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
