"""Python programs of tests as forks of one process for each process of the test run: their imports take longer than all
else of their starts. Elsewhere than on Linux they are executed.
"""

import asyncio
import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from pallas_cli.processes.child import LINUX, Forked, adopt_orphans
from pallas_contracts.catalog import SERVICES
from pallas_runtime.forks import NOT_FORKED, Program

_ROOT = Path(__file__).parents[1]
_SERVICES = {service.replace("-", "_") for service in SERVICES}


class Process:
    """A child process, as of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code.

        Raises:
            TimeoutExpired: it has not ended in time.
        """
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                if not select.select([descriptor], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            finally:
                os.close(descriptor)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


type Started = Process | subprocess.Popen[bytes]


def start(module: str, *arguments: str, env: Mapping[str, str], output: IO[bytes]) -> Started:
    """Run `python -m module arguments` with its output in a file; `env` is its whole environment."""
    if (pid := _fork(module, arguments, env, output)) is not None:
        return Process(pid)
    command = (sys.executable, "-m", module, *arguments)
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
    )


async def start_async(
    module: str, *arguments: str, env: Mapping[str, str], output: IO[bytes]
) -> Forked | asyncio.subprocess.Process:
    """The same, for an event loop."""
    if (pid := _fork(module, arguments, env, output)) is not None:
        return Forked(pid)
    command = (sys.executable, "-m", module, *arguments)
    return await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
    )


_lock = threading.Lock()
_servers: list[socket.socket] = []


def _fork(module: str, arguments: Sequence[str], env: Mapping[str, str], output: IO[bytes]) -> int | None:
    if not LINUX:
        return None
    program = Program(arguments=[*arguments], env=dict(env), folder=os.getcwd(), orphan_signal=signal.SIGKILL)
    with _lock, os.fdopen(os.memfd_create("program"), "w+b") as file:
        file.write(json.dumps(program).encode())
        file.seek(0)
        connection = _server()
        needed = f"{module} {module}.app" if module in _SERVICES else module
        socket.send_fds(connection, [needed.encode()], [file.fileno(), output.fileno()])
        answer = connection.recv(20)
    assert answer, "the fork server of the tests has died"
    return int(answer) if answer != NOT_FORKED else None


def _server() -> socket.socket:
    """The fork server, which is started when it is needed. It ends with this process."""
    if not _servers:
        adopt_orphans()
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            command = (sys.executable, "-m", "pallas_runtime.forks")
            process = subprocess.Popen(command, stdin=its.fileno(), cwd=_ROOT, start_new_session=True)
        atexit.register(lambda: (ours.close(), process.wait()))
        _servers.append(ours)
    return _servers[0]
