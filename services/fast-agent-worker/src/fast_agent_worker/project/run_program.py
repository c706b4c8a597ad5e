"""Runs a program up to where it runs or serves its agents: its `FastAgent` or its agents are made only then.

Most such programs make all in `main()`. The program runs in a thread, because it starts an event loop of its own.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

from fast_agent import FastAgent

from fast_agent_worker.project.reasons import reason_of
from pallas_contracts.errors import Rejected

RUN_SECONDS = 20.0
"""How long a program may take until it runs its agents. The process does nothing else meanwhile."""
_RUNS = ("run", "start_server")

_kept: list[ModuleType] = []
"""The modules that were run: what their agents use is in them."""
_found: ContextVar[list[FastAgent] | None] = ContextVar("_found", default=None)
"""Set in what a program runs before it has run its agents."""


class _Runs(BaseException):
    """The program is where it runs its agents. Not an `Exception`: the program must not handle it."""


def instances_of_a_run(file: Path, folder: Path, package: str) -> list[FastAgent]:
    """The `FastAgent`s that a program makes until it runs one. `package`: the one that it imports from, or empty.

    Raises:
        Rejected: it fails before it runs one, or never does.
    """
    found: list[FastAgent] = []
    ended: list[BaseException | None] = []

    def run() -> None:
        _found.set(found)
        with ExitStack() as stack:
            stack.push(lambda _kind, error, _traceback: ended.append(error) is None)
            _execute(file, package)

    thread = Thread(target=run, name=f"run {file.name}", daemon=True)
    with _stopped_at_run(found, thread):
        thread.start()
        thread.join(RUN_SECONDS)
    if found:
        return found
    if not ended:
        raise Rejected(f"it did not come to run its FastAgent within {RUN_SECONDS:g} s")
    if ended[0] is None:
        raise Rejected("it makes no FastAgent when it is imported, and runs none when it is started")
    if isinstance(ended[0], SystemExit):
        raise Rejected("it is run without arguments, and ended before it ran its FastAgent") from ended[0]
    raise Rejected(f"it ended before it ran its FastAgent: {reason_of(ended[0], folder)}") from ended[0]


def _execute(file: Path, package: str) -> None:
    spec = importlib.util.spec_from_file_location("__main__", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python module")
    before, module = sys.modules["__main__"], importlib.util.module_from_spec(spec)
    module.__package__ = package
    _kept.append(module)
    sys.modules["__main__"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules["__main__"] = before


@contextmanager
def _stopped_at_run(found: list[FastAgent], thread: Thread) -> Iterator[None]:
    """Stop the program where it runs its agents, also after the block: it may be late."""
    waits = True

    def stopped(usual: Callable[..., Any]) -> Callable[..., Any]:
        def stop(fast: FastAgent, *arguments: Any, **options: Any) -> Any:
            into = _found.get()
            if into is None and not waits:
                return usual(fast, *arguments, **options)
            (found if into is None else into).append(fast)
            raise _Runs

        return stop

    before = {name: getattr(FastAgent, name) for name in _RUNS}
    for name, method in before.items():
        setattr(FastAgent, name, stopped(method))
    try:
        yield
    finally:
        waits = False
        if not thread.is_alive():
            for name, method in before.items():
                setattr(FastAgent, name, method)
