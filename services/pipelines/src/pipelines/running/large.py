"""Work on large values, which must not keep others waiting."""

import asyncio
from collections.abc import Callable
from typing import Any

from pallas_cst.values import size_of
from pallas_cst.work import LARGE

MOST_BYTES = 64 * 2**20
"""Bytes of the outputs of an execution, of the arguments of a call, and of all results of a batch (estimated)."""


async def worked_on[R](value: Any, function: Callable[[], R]) -> R:
    """The result of work on a value; on a large one in a thread."""
    return function() if size_of(value, LARGE) < LARGE else await asyncio.to_thread(function)
