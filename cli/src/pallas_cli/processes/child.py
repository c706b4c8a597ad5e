"""One running process, started in its own session.

With its own session, Ctrl-C on the terminal reaches only the supervisor, which then stops the children in order.
"""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.private_files import PRIVATE, private_folder
from pallas_cli.processes.after_fork import child_setup
from pallas_cli.processes.launch import Launch
from pallas_cli.refused import Refused

_PROBE_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class Child:
    """A running process with its log file."""

    launch: Launch
    process: asyncio.subprocess.Process
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

    def terminate(self) -> None:
        """Send the stop signal; does nothing if the process has ended."""
        with suppress(ProcessLookupError):
            self.process.send_signal(self.launch.stop_signal)

    def kill(self) -> None:
        """Kill the process and its process group; does nothing if they have ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self.process.kill()

    async def stop(self, grace: float) -> bool:
        """Send the stop signal, wait `grace` seconds, then kill. Return whether it stopped without being killed."""
        self.terminate()
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


async def start(launch: Launch, log: Path) -> Child:
    """Start a process whose output is appended to `log`. File and folder are private to their owner.

    Raises:
        Refused: the command cannot be executed.
    """
    private_folder(log.parent)
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE), "ab") as output:
        os.fchmod(output.fileno(), PRIVATE)
        offset = output.tell()
        try:
            process = await asyncio.create_subprocess_exec(
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
    return Child(launch, process, log, offset)
