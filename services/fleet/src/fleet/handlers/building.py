"""Waits for builds of workspaces."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from fleet.coder.client import Coder
from pallas_contracts.errors import Unavailable

_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
_FAILED = frozenset({"failed", "canceled"})


async def failure_of_build(coder: Coder, build_id: str, seconds: float, tell: Callable[[str], None]) -> str | None:
    """Why a build has failed; None: it has succeeded, or goes on after `seconds`. `tell` gets its status."""
    pause = _PAUSE
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                with suppress(Unavailable):  # it goes on without us
                    build = await coder.build(build_id)
                    if build is None or build.status == "succeeded":
                        return None
                    if build.status in _FAILED:
                        return build.error or f"the build was {build.status}"
                    tell(build.status)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
    return None
