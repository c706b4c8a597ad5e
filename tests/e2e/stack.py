"""A stack that `pallas up` runs for tests, driven from outside: the command, its ready file, signals.

Stacks of different tests do not meet: each has its own data folder and its own block of ports.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil
from tests.embedded import own_share
from tests.waiting import is_gone

from pallas_cli.stack.ports import is_free

PALLAS = str(Path(sys.executable).parent / "pallas")
_STARTS_WITHIN = 100.0
_STOPS_WITHIN = 30.0
_BLOCK = 50
_BASES = range(26000, 31000, _BLOCK)
_LAST_LINES = 15
_DENIED = re.compile("violation|authorization|authentication error", re.IGNORECASE)


def free_port_base() -> int:
    """Return a base from which all ports that a stack may use are free now."""
    for _ in range(200):
        base = random.choice(own_share(_BASES))
        if all(is_free(port) for port in range(base, base + _BLOCK)):
            return base
    raise RuntimeError("there is no free block of ports")


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
    """Wait for something outside of this process, which has no event to wait on.

    Raises:
        AssertionError: it did not come true in time.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.02)


class Stack:
    """One run of `pallas up` with further `options`; a context manager that leaves nothing behind.

    Most callers of agents need nothing that knows who may read what: only with `auth` it is there.
    """

    running: ClassVar[list["Stack"]] = []
    """Those that were started and have not been left yet."""

    def __init__(self, folder: Path, *options: str, auth: bool = False, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.base = free_port_base()
        self.ready_file = folder / "ready.json"
        self.output = folder / "output"
        self._options = options if auth else (*options, "--no-auth")
        self._env = {**os.environ, "COLUMNS": "200", **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: set[int] = set()

    def set_env(self, **variables: str) -> None:
        """Add options, such as those that depend on its ports, before it starts."""
        self._env.update(variables)

    def start(self) -> Self:
        """Start the command without waiting for it."""
        fixed = ("--ready-file", str(self.ready_file), "--data", str(self.folder / "data"))
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [PALLAS, "up", *fixed, "--port-base", str(self.base), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._env,
                start_new_session=True,
            )
        return self

    def until_ready(self) -> dict[str, Any]:
        """Wait for the ready file and return it."""
        wait_until(lambda: self.ready_file.exists() or self._ended(), "the ready file", _STARTS_WITHIN)
        assert self.ready_file.exists(), self.text()
        return self.ready()

    def ready(self) -> dict[str, Any]:
        """Return the ready file as it is now."""
        content: dict[str, Any] = json.loads(self.ready_file.read_text("utf-8"))
        for pids in content["pids"].values():
            self._seen.update(pids)
        return content

    def interrupt(self, times: int = 1) -> int:
        """Press Ctrl-C, wait for the end and return the exit code. `uv run` makes two signals of one press."""
        assert self._process is not None
        for _ in range(times):
            self._process.send_signal(signal.SIGINT)
        return self._process.wait(_STOPS_WITHIN)

    def children(self) -> list[int]:
        """Return the processes that the command has started and that run now, with theirs."""
        return [process.pid for process in self.processes()[1:]]

    def processes(self) -> list[psutil.Process]:
        """Return the command and the processes that run below it."""
        assert self._process is not None
        command = psutil.Process(self._process.pid)
        return [command, *command.children(recursive=True)]

    def kill9(self) -> None:
        """End the supervisor as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Wait until the command ends by itself and return its exit code."""
        assert self._process is not None
        return self._process.wait(_STARTS_WITHIN)

    def text(self) -> str:
        """What the command has printed so far."""
        return self.output.read_text("utf-8", errors="replace")

    def left_over(self) -> list[int]:
        """Return the processes of this stack that still run, of all that the ready file has ever named."""
        return [pid for pid in self._seen if not is_gone(pid)]

    def denied(self) -> list[str]:
        """The violations of broker rights so far. There should be none."""
        log = (Path(self.ready()["log"]) / "nats-server-1.log").read_text("utf-8", errors="replace")
        return [line for line in log.splitlines() if _DENIED.search(line)]

    def last_lines(self) -> str:
        """The last log lines of each process, for the report of a failed test."""
        logs = sorted((self.folder / "data").glob("**/*.log"))
        ends = {log.name: log.read_text("utf-8", errors="replace").splitlines()[-_LAST_LINES:] for log in logs}
        return "\n".join(line for name, lines in ends.items() for line in (f"{name}:", *lines))

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def __enter__(self) -> Self:
        self.running.append(self)
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.running.remove(self)
        if self._process is not None and self._process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                self.kill9()
                raise
