"""Runs a program up to where it runs or serves its agents: its `FastAgent` or its agents are made only then.

Most such programs make all in `main()`. The program runs in a thread, because it starts an event loop of its own.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, Never

from fast_agent import FastAgent

from fast_agent_worker.project.reasons import reason_of
from pallas_contracts.errors import Rejected

RUN_SECONDS = 30.0
"""How long a program may take until it runs its agents."""
_RUNS = ("run", "start_server")

_kept: list[ModuleType] = []
"""The modules that were run: what their agents use is in them."""


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
        with ExitStack() as stack:
            stack.push(lambda _kind, error, _traceback: ended.append(error) is None)
            _execute(file, package)

    with _stopped_at_run(found):
        thread = Thread(target=run, name=f"run {file.name}", daemon=True)
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
def _stopped_at_run(found: list[FastAgent]) -> Iterator[None]:
    def stop(fast: FastAgent, *_arguments: Any, **_options: Any) -> Never:
        found.append(fast)
        raise _Runs

    before = {name: getattr(FastAgent, name) for name in _RUNS}
    for name in _RUNS:
        setattr(FastAgent, name, stop)
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(FastAgent, name, method)
