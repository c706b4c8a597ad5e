"""The process that checks, as its parent has it. It is used by one thread, and started when there is a request."""

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from pallas_contracts.errors import Rejected

_LATE = (-signal.SIGPROF, -signal.SIGALRM)
COMMAND = (sys.executable, "-P", "-m", "pallas_schemas.helper")


class Ended(Exception):
    """The process has ended during a request. `late`: because that took too long. `so_far`: what it has answered."""

    def __init__(self, *, late: bool, so_far: list[str] | None) -> None:
        super().__init__()
        self.late = late
        self.so_far = so_far


@dataclass(slots=True)
class _Running:
    pid: int
    requests: BinaryIO
    answers: BinaryIO

    @classmethod
    def start(cls) -> "_Running":
        """Start it in a session of its own, since signals to the group of this process are not for it. It gets no
        secrets, and ends when the pipe of its requests closes, as it does when this process ends.
        """
        environment = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "LD_"))}
        its_requests, requests = os.pipe()
        answers, its_answers = os.pipe()
        actions = (
            (os.POSIX_SPAWN_DUP2, its_requests, 0),
            (os.POSIX_SPAWN_DUP2, its_answers, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        )
        running = [os.fdopen(requests, "wb"), os.fdopen(answers, "rb")]
        try:
            pid = os.posix_spawn(sys.executable, COMMAND, environment, file_actions=actions, setsid=True)
        except OSError:
            for pipe in running:
                pipe.close()
            raise
        finally:
            os.close(its_requests)
            os.close(its_answers)
        return cls(pid, *running)

    def end(self) -> int:
        """End it if it has not ended, and say how it did: the number of a signal is negative."""
        self.answers.close()
        with suppress(OSError):
            self.requests.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Process:
    """A process, or none until there is a request."""

    def __init__(self) -> None:
        self._running: _Running | None = None

    def ask(self, request: bytes) -> list[str]:
        """The faults. A process that has ended for another reason than its time is given another chance, once.

        Raises:
            Rejected: the schema cannot be used.
            OSError: no process can be started.
            Ended: the process has ended.
        """
        fresh = self._running is None
        try:
            return self._ask(request)
        except Ended as error:
            if error.late or fresh:
                raise
        return self._ask(request)

    def _ask(self, request: bytes) -> list[str]:
        running = self._running = self._running or _Running.start()
        so_far: list[str] | None = None
        try:
            running.requests.write(request)
            running.requests.flush()
            for line in running.answers:
                answer: dict[str, Any] = json.loads(line)
                if "rejected" in answer:
                    raise Rejected(answer["rejected"])
                so_far = answer["faults"]
                if answer["final"]:
                    return so_far or []
        except (OSError, ValueError):
            pass
        self._running = None
        raise Ended(late=running.end() in _LATE, so_far=so_far)
