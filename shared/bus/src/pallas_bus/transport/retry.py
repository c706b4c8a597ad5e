"""Retry what fails because the broker is unavailable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

RETRYING = "the broker is unavailable; retrying"


async def retry_while_unavailable[T](
    attempt: Callable[[], Awaitable[T]],
    what: str,
    *,
    deadline: float | None = 60.0,
    pause: float = 0.5,
    unless: str | None = None,
    facts: Mapping[str, object] | None = None,
) -> T:
    """Return what `attempt()` returns; call it again, `pause` seconds later, whenever it raises `Unavailable`.

    `deadline` is in seconds from now; None retries for ever. An error with the code `unless` is not retried. The first
    failure is logged as `RETRYING`, with `what` was attempted and `facts`.

    Raises:
        Unavailable: the last attempt failed after the deadline, with the code `unless`, or while this task was being
            cancelled.
    """
    clock = asyncio.get_running_loop().time
    until, logged = None if deadline is None else clock() + deadline, False
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            if error.code == unless or is_cancelled() or (until is not None and clock() > until):
                raise
            if not logged:
                logged = True
                log.log(_level(error), RETRYING, extra={**(facts or {}), "attempted": what, "reason": error.message})
        await asyncio.sleep(pause)


def is_cancelled() -> bool:
    """Whether the current task is being cancelled. An error of its clean-up takes the place of the cancellation."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _level(error: Unavailable) -> int:
    """A stream that does not exist yet is normal while a platform starts."""
    return logging.INFO if error.code == "no_stream" else logging.WARNING
