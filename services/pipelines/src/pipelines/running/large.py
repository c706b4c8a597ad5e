"""Work on large values, which must not keep others waiting."""

import asyncio
from collections.abc import Callable
from typing import Any

from pallas_cst.types import Type
from pallas_cst.values import size_of
from pallas_cst.work import LARGE

_LARGE_TYPE = 500
"""Parts of types with which work may take long, whatever the value is."""

MOST_BYTES = 64 * 2**20
"""Bytes of the outputs of an execution, of the arguments of a call, and of all results of a batch (estimated)."""


async def worked_on[R](value: Any, function: Callable[[], R], *kinds: Type) -> R:
    """The result of work on a value with types; with a large value or type in a thread."""
    small = size_of(value, LARGE) < LARGE and sum(kind.size for kind in kinds) < _LARGE_TYPE
    return function() if small else await asyncio.to_thread(function)
