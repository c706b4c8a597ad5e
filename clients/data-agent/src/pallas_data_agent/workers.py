"""Worker processes. Each calls functions of an agent, one call after another, and can be killed."""

import asyncio
import fcntl
import json
import logging
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from pallas_data_agent.tools import AGENT_ERROR, UNREACHABLE, Tool, answer, failure

if TYPE_CHECKING:
    from pallas_data_agent.agent import DataAgent

MOST_BYTES = 16 * 2**20
"""The longest message."""

_READY, _OUT_OF_MEMORY = b"ready", b""

log = logging.getLogger("pallas_data_agent")
_processes = multiprocessing.get_context("forkserver")


def prepare_workers(modules: Set[str]) -> None:
    """Start the process that forks workers. It imports these modules, so that they need not."""
    forkserver.set_forkserver_preload([__name__, *(modules - {"__main__"})])
    usual = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it must not end when all processes are told to
    forkserver.ensure_running()
    signal.signal(signal.SIGTERM, usual)


class Worker:
    """A worker process, from this side."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], memory: int) -> None:
        """Wait until it has imported the functions. `memory` is its limit in bytes, 0 means none.

        Raises:
            AttributeError, pickle.PicklingError: a function cannot be imported by its name.
            ChildProcessError: it has ended.
        """
        self._connection, theirs = _processes.Pipe()
        self.process = _processes.Process(target=_work, args=(theirs, functions, memory))
        with theirs:
            self.process.start()
        try:
            self._receive(None)
        except EOFError:
            raise ChildProcessError("a worker ended while it started; its standard error says why") from None

    def ask(self, request: bytes, timeout: float | None) -> bytes:
        """Its answer to a request, within `timeout` seconds.

        Raises:
            TimeoutError, MemoryError: a limit was reached.
            EOFError, OSError: it has ended.
        """
        self._connection.send_bytes(request)
        if (answered := self._receive(timeout)) == _OUT_OF_MEMORY:
            raise MemoryError
        return answered

    def kill(self) -> None:
        """Kill it and the programs that it has started. Who waits for its answer gets an EOFError."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)

    def _receive(self, timeout: float | None) -> bytes:
        readable = wait([self._connection, self.process.sentinel], timeout)
        if not readable:
            raise TimeoutError
        if self._connection not in readable:
            raise EOFError
        return self._connection.recv_bytes()


class Workers:
    """The workers of an agent: one for each call that runs, and those that are idle. The first is started at once."""

    def __init__(self, agent: "DataAgent") -> None:
        """Raises what `Worker` raises."""
        self.agent = agent
        self._arguments = ({name: tool.function for name, tool in agent.tools.items()}, agent.memory_bytes)
        self._idle = [Worker(*self._arguments)]
        self._slots = asyncio.Semaphore(agent.max_concurrency)

    async def execute(self, request: Mapping[str, Any], data: bytes) -> bytes:
        """The response to a request, which is `data` in JSON. A worker that gives none is killed."""
        function, limit = request["params"].get("function"), self.agent.timeout
        try:
            async with self._slots:
                answered = await self._ask(data)
        except TimeoutError:
            return failure(request, UNREACHABLE, f"{function} timed out after {limit:g} s")
        except MemoryError:
            return failure(request, AGENT_ERROR, f"memory limit {self.agent.memory_bytes / 10**6:g} MB")
        except (EOFError, OSError):
            log.exception("the process of %s ended", function)
            return failure(request, AGENT_ERROR, f"{function} failed")
        if len(answered) > MOST_BYTES:
            return failure(request, AGENT_ERROR, f"the answer of {function} exceeds {MOST_BYTES >> 20} MiB")
        return answered

    async def _ask(self, data: bytes) -> bytes:
        self._idle = [each for each in self._idle if each.process.is_alive()]
        worker = self._idle.pop() if self._idle else await asyncio.to_thread(Worker, *self._arguments)
        try:
            answered = await asyncio.to_thread(worker.ask, data, self.agent.timeout)
        except BaseException:
            worker.kill()
            raise
        self._idle.append(worker)
        return answered

    def kill(self) -> None:
        """Kill those that are idle."""
        for worker in self._idle:
            worker.kill()


def _work(connection: Connection, functions: Mapping[str, Callable[..., Any]], memory: int) -> None:
    """Answer requests until the connection is closed."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)  # the parent ends it; SIG_IGN would hold for programs that tools start
    tools = {name: Tool(function) for name, function in functions.items()}
    _end_with_parent()
    if memory:
        with suppress(ValueError):  # there is a lower limit
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        bytearray(8 * 2**20)  # better no memory now than in each call
    connection.send_bytes(_READY)
    while True:
        try:
            connection.send_bytes(answer(tools, json.loads(connection.recv_bytes())))
        except EOFError:
            return
        except MemoryError:
            connection.send_bytes(_OUT_OF_MEMORY)
        sys.stdout.flush()


def _end_with_parent() -> None:
    """Have this process and the programs that it has started killed when its parent ends, also during a call.

    The kernel sends SIGIO when the pipe to the parent is closed. A thread would take 72 MiB of address space.
    """
    if parent := multiprocessing.parent_process():
        signal.signal(signal.SIGIO, _kill_group)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)


def _ignore(_number: int, _frame: object) -> None:
    pass


def _kill_group(_number: int, _frame: object) -> None:
    os.killpg(0, signal.SIGKILL)
