"""The fork server of a stack.

It is started again when it has died. Where it cannot start a process, the process is started as any other program.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pallas_cli.private_files import PRIVATE, private_folder
from pallas_cli.processes.child import LINUX, Forked, Launch, child_setup
from pallas_cli.processes.environment import service_environment
from pallas_runtime.forks import NOT_FORKED, Program

PYTHON = (sys.executable, "-P", "-m")
"""How commands begin that can be forked."""

_ANSWERS_WITHIN = 30.0


class ForkServer:
    """Starts Python programs as forks of one process (`pallas_runtime.forks`), on Linux.

    This process has to be a subreaper (`adopt_orphans`). `modules` are imported before they are needed.
    """

    def __init__(self, modules: Sequence[str], log: Path, report: Callable[[str], None]) -> None:
        self._modules = modules
        self._log = log
        self._report = report
        self.process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.asking = asyncio.Lock()

    def open(self) -> None:
        """Start it, so that it imports while other things happen. It is also started when it is needed."""
        if LINUX:
            self._opened()

    def close(self) -> None:
        """End it. Its forks go on."""
        process, connection = self.process, self._socket
        self.process = self._socket = None
        if process is not None and connection is not None:
            process.kill()
            process.wait()
            with connection, suppress(OSError):
                if (unread := connection.recv(20)).isdigit():  # nobody knows of this one
                    os.kill(int(unread), signal.SIGKILL)

    async def fork(self, launch: Launch, output: int) -> Forked | None:
        """Start a Python program with `output`; None if it is none, or cannot be forked."""
        if not LINUX or launch.rootless or launch.command[:3] != PYTHON:
            return None
        module, *arguments = launch.command[3:]
        end = int(launch.orphan_signal)
        program = Program(arguments=arguments, env=dict(launch.env), folder=os.getcwd(), orphan_signal=end)
        async with self.asking:
            try:
                pid = await self._ask(module, program, output)
            except (OSError, subprocess.SubprocessError) as error:
                why = error or type(error).__name__
                self._report(f"a service is started without the fork server: {why} (log: {self._log})")
                return None
        try:
            return Forked(pid) if pid is not None else None
        except OSError as error:  # nobody would know of it
            self._report(f"a service is started without the fork server: {error} (log: {self._log})")
            assert pid is not None
            _end(pid)
            return None

    async def _ask(self, module: str, program: Program, output: int) -> int | None:
        connection = self._opened()
        with os.fdopen(os.memfd_create("program"), "w+b") as file:
            file.write(json.dumps(program).encode())
            file.seek(0)
            socket.send_fds(connection, [module.encode()], [file.fileno(), output])
        answer = b""
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN):
                answer = await asyncio.get_running_loop().sock_recv(connection, 20)
        finally:
            if not answer:
                self.close()
        if not answer:
            raise ConnectionError("it has died")
        return int(answer) if answer != NOT_FORKED else None

    def _opened(self) -> socket.socket:
        """Start it unless it runs."""
        if self.process is not None and self._socket is not None and self.process.poll() is None:
            return self._socket
        self.close()
        private_folder(self._log.parent)
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with its, os.fdopen(os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE), "ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                (*PYTHON, "pallas_runtime.forks", *self._modules),
                stdin=its.fileno(),
                stdout=output,
                stderr=output,
                env=service_environment() | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                preexec_fn=child_setup(signal.SIGKILL, rootless=False),
            )
        self._socket = ours
        return ours


def _end(pid: int) -> None:
    """Kill a child and forget it."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
