"""Makes the processes of a folder's programs: `python -m fast_agent_worker.programs.fork_server`.

Each is a fork of this one, which has imported fast-agent and what a worker needs. So it starts in a fraction of a
second, and shares this memory. This process itself runs nothing of the team, and has neither threads nor an event loop.
If it is killed, so are they. What a program leaves behind when it ends, such as its servers, is this one's to reap.

It reads an order a line on its input, and writes on its output what its children say (`status`), and their ends. It
kills them when its input ends: the process that has started it is gone then.
"""

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from fast_agent_worker.programs.status import Status
from pallas_runtime.start import quick_imports

_USUAL = (
    "anyio._backends._asyncio",
    "fast_agent.history.compaction",
    "fast_agent.hooks.compaction",
    "fast_agent.llm.provider.openai.llm_generic",
    "fast_agent.llm.provider.openai.responses",
    "fast_agent.tools.attach_media",
    "fast_agent.tools.local_filesystem_runtime",
    "fastmcp.server.context",
    "uvloop",
)
"""What each child would import first: it takes more than a second."""
_AT_ONCE = 64 * 1024
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_OURS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Fork, until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever gives the orders stops the children
    orders, output = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # programs that read it are told that there is nobody
    os.dup2(2, 1)
    preload()
    with quick_imports():
        from fast_agent_worker.programs.program import run_program
    libc, parent = ctypes.CDLL(None), os.getpid()
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    children = dict[int, Status]()
    for order in _orders(orders, children):
        status = Status(order["number"], output)
        if (child := os.fork()) == 0:
            break
        children[child] = status
        status.say(pid=child)
    else:
        for child in children:
            os.kill(child, signal.SIGKILL)
        return
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in _OURS:
        signal.signal(number, signal.SIG_DFL)
    os.close(orders)
    run_program(order, status, sys.argv[1:])


def preload() -> None:
    """Import what each program needs."""
    with quick_imports():
        for module in _USUAL:
            import_module(module)


def _orders(source: int, children: dict[int, Status]) -> Iterator[dict[str, Any]]:
    """The orders as they come. Meanwhile it says which children have ended."""
    ended, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    rest = b""
    while True:
        ready, _, _ = select.select([source, ended], [], [])
        if ended in ready:
            os.read(ended, _AT_ONCE)
            for child, code in _ended():
                if (status := children.pop(child, None)) is not None:
                    status.say(exit=os.waitstatus_to_exitcode(code))
        if source in ready:
            if not (given := os.read(source, _AT_ONCE)):
                return
            *lines, rest = (rest + given).split(b"\n")
            yield from map(json.loads, lines)


def _ended() -> Iterator[tuple[int, int]]:
    """The processes that have ended, each with its status."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


if __name__ == "__main__":
    main()
