"""Answers `get_health` in the form that all of Pallas has for it."""

import asyncio
from collections.abc import Awaitable, Callable

from library_search.answers import Health
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now

WITHIN = 0.8


async def get_health(ping: Callable[[], Awaitable[None]], behind: Callable[[], str | None]) -> Health:
    """How the service is, within a second: an error without its database, degraded without news of libraries."""
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        async with asyncio.timeout(WITHIN):
            await ping()
    except (Unavailable, TimeoutError):
        return Health(status="error", timestamp=now, message="the database cannot be used right now")
    missing = behind()
    return Health(status="degraded" if missing else "ok", timestamp=now, message=missing)
