"""Checks that are not small, apart from the event loop: in at most two processes for each service (`helper.py`).

Who makes a check is not known here, but whose schema it is (`owner`). Owners take turns. One whose check was ended
because it took too long is refused for a while, and longer each time: an attacker delays others a little, and rarely.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pallas_contracts.errors import PallasError, Rejected, Unavailable
from pallas_schemas.work import TOO_MUCH

log = logging.getLogger(__name__)

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


MOST_PROCESSES = 2
MOST_WAITING, MOST_OF_OWNER = 256, 16
MOST_BYTES, MOST_BYTES_OF_OWNER = 1 << 26, 1 << 25
"""Of all requests that wait, and of those of one owner."""
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
_MOST_PAUSED = 1_000


@dataclass(frozen=True, slots=True)
class _Pause:
    """An owner is refused `until` then. `seconds` long, and the next one twice as long."""

    seconds: float
    until: float


type _Check = tuple[bytes, Future[list[str]]]


@dataclass(slots=True)
class Apart:
    """The checks that wait, by owner, and the threads that have them made."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: dict[str, deque[_Check]] = field(default_factory=dict[str, deque[_Check]])
    _paused: dict[str, _Pause] = field(default_factory=dict[str, _Pause])
    _count: int = 0
    _bytes: int = 0
    _threads: int = 0
    _idle: int = 0

    def submit(self, owner: str, request: bytes) -> Future[list[str]]:
        """Have a check made. Its result is the faults; `Rejected` if the schema cannot be used, or `Unavailable`.

        Raises:
            Unavailable: too many wait, or a check of this owner's took too long a short while ago (`busy`).
        """
        made = Future[list[str]]()
        with self._changed:
            self._check_pause(owner)
            self._check_room(owner, len(request))
            self._waiting.setdefault(owner, deque()).append((request, made))
            self._count += 1
            self._bytes += len(request)
            if self._count > self._idle and self._threads < MOST_PROCESSES:
                self._threads += 1
                threading.Thread(target=self._work, name=f"checks {self._threads}", daemon=True).start()
            self._changed.notify()
        return made

    def _check_room(self, owner: str, size: int) -> None:
        of_owner = [len(request) for request, _ in self._waiting.get(owner, ())]
        counts = self._count >= MOST_WAITING or len(of_owner) >= MOST_OF_OWNER
        if counts or self._bytes + size > MOST_BYTES or sum(of_owner) + size > MOST_BYTES_OF_OWNER:
            raise Unavailable("Too many large checks of arguments wait. Try again shortly.", code="busy")

    def _work(self) -> None:
        process = Process()
        while True:
            owner, (request, made) = self._take()
            if not made.set_running_or_notify_cancel():
                continue
            try:
                made.set_result(self._made(process, owner, request))
            except PallasError as error:
                made.set_exception(error)
            except Exception as error:
                log.exception("a check of arguments failed", extra={"owner": owner})
                made.set_exception(error)

    def _take(self) -> tuple[str, _Check]:
        """The next check of the owner whose turn it is, who comes last then."""
        with self._changed:
            self._idle += 1
            while not self._waiting:
                self._changed.wait()
            self._idle -= 1
            owner = next(iter(self._waiting))
            of_owner = self._waiting.pop(owner)
            check = of_owner.popleft()
            if of_owner:
                self._waiting[owner] = of_owner
            self._count -= 1
            self._bytes -= len(check[0])
            return owner, check

    def _made(self, process: Process, owner: str, request: bytes) -> list[str]:
        with self._changed:
            self._check_pause(owner)
        try:
            return process.ask(request)
        except OSError as error:
            raise Unavailable("Large arguments cannot be checked right now. Try again shortly.", code="busy") from error
        except Ended as error:
            if error.so_far is not None:
                return error.so_far
        with self._changed:
            seconds = self._pause(owner)
        log.warning("a check of arguments took too long and was ended", extra={"owner": owner, "refused_for": seconds})
        return [TOO_MUCH]

    def _pause(self, owner: str) -> float:
        known, now = self._paused.pop(owner, None), time.monotonic()
        again = known is not None and now < known.until + LONGEST_PAUSE
        seconds = min(known.seconds * 2, LONGEST_PAUSE) if known is not None and again else FIRST_PAUSE
        self._paused[owner] = _Pause(seconds, now + seconds)
        if len(self._paused) > _MOST_PAUSED:
            del self._paused[next(iter(self._paused))]
        return seconds

    def _check_pause(self, owner: str) -> None:
        known = self._paused.get(owner)
        if known is not None and (left := known.until - time.monotonic()) > 0:
            raise Unavailable(
                f"A check against this schema took too long. Large ones are refused for {left:.0f} s.", code="busy"
            )


APART = Apart()
"""Those of this process."""
