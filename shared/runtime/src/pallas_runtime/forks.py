"""`python -P -m pallas_runtime.forks MODULE...`: starts Python programs as forks of one process (Linux only).

The imports of a service take longer than all else of its start, and services import nearly the same. This process
imports the modules of its arguments, each before a program of its package is started, or while it has nothing else to
do. Its forks share the memory.

A request on the socket that is standard input is the name of the module to run, and of others to import before, with
two files: a `Program` as JSON, and the log. The answer is the process id, or `NOT_FORKED`. Only the fork reads the
program, so that no secret of it is in the memory of later forks. The fork is a child of whoever asks (who has to be a
subreaper and learns how it ends), and is killed with it. It begins when the answer has been sent, so that nothing runs
of which nobody knows.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import socket
import sys
import traceback
from contextlib import suppress
from typing import NoReturn, TypedDict

NOT_FORKED = b"-"
"""The program has to be started in another way."""

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LATE = ("uvloop", "uvicorn.lifespan.off", "anyio._backends._asyncio", "concurrent.futures.thread", "pydantic.v1")
"""What services import when they run."""
_LONGEST_NAME = 1024
_START_OF_ARGUMENTS = 45
"""Where the address of the arguments and that of their end are in `/proc/self/stat`, behind the name."""


class Program(TypedDict):
    """What a fork runs: `python -P -m MODULE ARGUMENTS`, in its own session. `env` is its whole environment."""

    arguments: list[str]
    env: dict[str, str]
    folder: str
    orphan_signal: int


def main(modules: list[str]) -> None:
    """Import modules and start programs, until the other side of the socket is closed."""
    gc.disable()
    requests = socket.socket(fileno=os.dup(0))
    libc, parent = ctypes.CDLL(None), os.getppid()
    modules = [*_LATE, *modules]
    while True:
        if modules and not select.select([requests], [], [], 0)[0]:
            _import(modules.pop(0))
            continue
        message, files, *_ = socket.recv_fds(requests, _LONGEST_NAME, 2)
        if not message:
            return
        module, *needed = message.decode().split()
        package = module.partition(".")[0]
        ahead = [each for each in modules if each in _LATE or each.partition(".")[0] == package]
        modules = [each for each in modules if each not in ahead]
        for each in (*ahead, *needed):
            _import(each)
        if _fork(requests, files):
            requests.close()
            _become(module, files, libc, parent)
        for file in files:
            os.close(file)


def _import(module: str) -> None:
    """Import a module. One that cannot be imported says so in the log of its program, too."""
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001 - the module's own
        traceback.print_exc()


def _fork(requests: socket.socket, files: list[int]) -> bool:
    """Fork, and answer with the process id. Return whether this is the fork."""
    if len(files) != 2 or len(os.listdir("/proc/self/task")) > 1:
        sys.stderr.write("there is another thread, so nothing can be forked\n")
        requests.send(NOT_FORKED)
        return False
    gc.freeze()
    (number, its_number), (gate, its_gate) = os.pipe(), os.pipe()
    if (between := os.fork()) == 0:
        with suppress(OSError):  # the limit of processes
            if (fork := os.fork()) == 0:
                return _passed(its_gate, number, its_number, gate)
            os.write(its_number, str(fork).encode())
        os._exit(0)
    os.close(its_number)
    os.waitpid(between, 0)  # from here on the fork is a child of whoever asks
    requests.send(os.read(number, 20) or NOT_FORKED)
    os.write(its_gate, b"1")
    for pipe in (number, gate, its_gate):
        os.close(pipe)
    return False


def _passed(its_gate: int, number: int, its_number: int, gate: int) -> bool:
    """Wait in the fork until its number was sent. It ends if that cannot be."""
    os.close(its_gate)
    if not os.read(gate, 1):
        os._exit(1)
    for pipe in (number, its_number, gate):
        os.close(pipe)
    return True


def _become(module: str, files: list[int], libc: ctypes.CDLL, parent: int) -> NoReturn:
    """Be the program."""
    with os.fdopen(files[0], "rb") as file:
        program: Program = json.load(file)
    os.setsid()
    libc.prctl(_PR_SET_PDEATHSIG, program["orphan_signal"], 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, place in ((nothing, 0), (files[1], 1), (files[1], 2)):
        os.dup2(descriptor, place)
    os.close(nothing)
    os.close(files[1])
    os.chdir(program["folder"])
    os.environ.clear()
    os.environ.update(program["env"])
    sys.argv = [module, *program["arguments"]]
    with suppress(OSError, ValueError):
        _rename(module, " ".join(("python -P -m", *sys.argv)), libc)
    gc.enable()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)


def _rename(name: str, command: str, libc: ctypes.CDLL) -> None:
    """Let lists of processes show `name` and `command`, which is cut off behind as many bytes as the arguments had."""
    libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = map(int, fields[_START_OF_ARGUMENTS : _START_OF_ARGUMENTS + 2])
    room = end - start - 2
    # The last byte tells Linux that this is not a list of arguments with a zero behind each.
    ctypes.memmove(start, command.encode()[:room].ljust(room + 1, b"\0") + b"+", end - start)


if __name__ == "__main__":
    main(sys.argv[1:])
