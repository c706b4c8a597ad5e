"""Child processes, which execute one call after another, and can be killed.

A process with threads must not fork, and an event loop has some. So the `Nursery`, a process of its own, is forked
before the loop is started, and forks the children.
"""

import asyncio
import logging
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

log = logging.getLogger("pallas_data_agent")

Execute = Callable[[bytes], bytes]

_SIZE = struct.Struct("!I")
_ORDER = struct.Struct("!qq")
"""An order to the nursery: fork a child with this memory limit (bytes; 0: none), or kill the child of this id."""

_OUT_OF_MEMORY = b""


class Nursery:
    """The process that forks children and kills them. It ends, with its children, when this process does."""

    def __init__(self, execute: Execute) -> None:
        """Fork it. A child answers each request with `execute`."""
        self._control, theirs = socket.socketpair()
        with theirs:
            self._pid = _fork(self._control, _nurse, theirs, execute)

    async def fork(self, memory: int) -> "Child":
        """A new child; `memory` is its limit in bytes, 0 means none.

        Raises:
            RuntimeError: the nursery has ended.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [_ORDER.pack(memory, 0)], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise RuntimeError("the process that forks children has ended") from error
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            return Child(int(await _read(reader)), reader, writer, self)
        except BaseException:
            writer.close()
            raise

    def kill(self, pid: int) -> None:
        """Kill a child and all processes of its group."""
        self._control.sendall(_ORDER.pack(0, pid))

    def close(self) -> None:
        """End the nursery and its children."""
        self._control.close()
        os.waitpid(self._pid, 0)


@dataclass(frozen=True)
class Child:
    """A child process."""

    pid: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    nursery: Nursery

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return not self.reader.at_eof()

    async def ask(self, request: bytes) -> bytes:
        """Its answer to a request.

        Raises:
            MemoryError: it has reached its memory limit, and has ended.
            EOFError, OSError: it has ended.
        """
        self.writer.write(_SIZE.pack(len(request)) + request)
        await self.writer.drain()
        answer = await _read(self.reader)
        if answer == _OUT_OF_MEMORY:
            raise MemoryError
        return answer

    def kill(self) -> None:
        """Kill it."""
        self.nursery.kill(self.pid)
        self.writer.close()


class Children:
    """The children of one agent: at most `most`, each with `memory` bytes. A call takes one."""

    def __init__(self, nursery: Nursery, memory: int, most: int) -> None:
        self._nursery = nursery
        self._memory = memory
        self._idle: list[Child] = []
        self._slots = asyncio.Semaphore(most)

    async def execute(self, request: bytes, timeout: float | None) -> bytes:
        """The answer to a request, within `timeout` seconds. A child that does not give one is killed.

        Raises:
            TimeoutError, MemoryError: a limit was reached.
            EOFError, OSError: the child has ended.
        """
        async with self._slots:
            child = self._idle_one() or await self._nursery.fork(self._memory)
            try:
                async with asyncio.timeout(timeout):
                    answer = await child.ask(request)
            except BaseException:
                child.kill()
                raise
            self._idle.append(child)
            return answer

    def _idle_one(self) -> Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            child.writer.close()
        return None


async def _read(reader: asyncio.StreamReader) -> bytes:
    [size] = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    return await reader.readexactly(size)


def _fork(not_inherited: socket.socket, main: Callable[..., None], *arguments: object) -> int:
    """Run `main` in a child of this process; returns its process id."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what is left in a buffer would be written twice
    if pid := os.fork():
        return pid
    try:
        not_inherited.close()
        main(*arguments)
    except Exception:
        log.exception("a child process failed")
    finally:
        os._exit(0)


def _nurse(control: socket.socket, execute: Execute) -> None:
    """Follow orders until the parent closes the connection or ends."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)  # the parent ends it; SIG_IGN would also hold for programs that tools start
    children = set[int]()
    while True:
        order, [*ends], _, _ = socket.recv_fds(control, _ORDER.size, 1)
        while children and (ended := os.waitpid(-1, os.WNOHANG)[0]):
            children.discard(ended)
            _kill(ended)  # what it has started and left behind
        if not order:
            for pid in children:
                _kill(pid)
            return
        memory, pid = _ORDER.unpack(order)
        if not ends:
            if pid in children:
                _kill(pid)
        else:
            with socket.socket(fileno=ends[0]) as connection:
                children.add(_fork(control, _work, connection, memory, execute))


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing at a signal."""


def _kill(pid: int) -> None:
    """Kill a child and the processes of its group."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _work(connection: socket.socket, memory: int, execute: Execute) -> None:
    """Answer requests until the connection is closed, or memory is exhausted."""
    os.setsid()
    if memory:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    _send(connection, str(os.getpid()).encode())
    with connection.makefile("rb") as requests:
        while size := requests.read(_SIZE.size):
            try:
                _send(connection, execute(requests.read(*_SIZE.unpack(size))))
            except MemoryError:
                _send(connection, _OUT_OF_MEMORY)
                return
            sys.stdout.flush()


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(_SIZE.pack(len(message)) + message)
