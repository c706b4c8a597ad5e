"""A test that takes too long fails, and the run goes on.

By itself, pytest-timeout fails it once, by an exception that anyio takes for an outcome: the test's coroutine is left
where it was, and whatever asks its event loop next (the end of a fixture, most often) waits for ever with no alarm set.
Here the exception is none of an outcome, so anyio cancels the test first, and the alarm rings again until the test is
over, its fixtures included.
"""

import asyncio
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Protocol

import pytest

AGAIN_SECONDS = 20.0
"""Seconds for the clean-up of a test before it is interrupted, too."""


class TookTooLong(BaseException):
    """A test did not end in time."""


class _Settings(Protocol):
    @property
    def timeout(self) -> float: ...


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: _Settings) -> bool:
    """Set an alarm for the end of a test's time, which repeats after that."""

    def ring(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        _print_tasks(item)
        raise TookTooLong(f"{item.nodeid} took longer than {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_SECONDS)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """The test is over."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True


def _print_tasks(item: pytest.Item) -> None:
    """Print where every task of a test's event loop was."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return
    print(f"under way in {item.nodeid}:", file=sys.stderr)
    for task in tasks:
        print(f"  {task.get_name()}:", *_awaited(task.get_coro()), sep="\n    ", file=sys.stderr)


def _awaited(waiting: object) -> Iterator[str]:
    """The place of a coroutine, of what it waits for, and so on."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            yield repr(waiting)
            return
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
