"""Answers `get_health` in the form that all of Pallas shares."""

from collections.abc import Callable

from library_search.handlers.answers import Health
from pallas_contracts.message import utc_now


async def get_health(database: Callable[[], str | None], changes: Callable[[], str | None]) -> Health:
    """`error` without the database, `degraded` if changes of libraries may be unknown, else `ok`."""
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    if database() is not None:
        return Health(status="error", timestamp=now, message="the database cannot be used right now")
    missing = changes()
    return Health(status="degraded" if missing else "ok", timestamp=now, message=missing)
