"""Says on a terminal that a command still works, when it takes longer than a second."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

PATIENCE = 1.0


@contextmanager
def shown(what: str | None) -> Generator[None]:
    """Show a status line about `what` after a second, on standard error and only on a terminal. None: nothing.

    Lines that are printed meanwhile appear above it.
    """
    if what is None or not sys.stderr.isatty():
        yield
        return
    line = _Line(what)
    timer = threading.Timer(PATIENCE, line.begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        line.end()


class _Line:
    """The status line, which may be wanted from another thread just when it is over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._status: Status | None = None
        self._over = False

    def begin(self) -> None:
        from rich.console import Console

        with self._lock:
            if not self._over:
                self._status = Console(stderr=True).status(self._what)
                self._status.start()

    def end(self) -> None:
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()
