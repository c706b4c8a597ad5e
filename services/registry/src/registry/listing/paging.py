"""The query of `GET /v0.1/servers`, and the page it selects.

A cursor is the last name of the previous page, encoded so that it needs no URL-encoding.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from registry.listing.compile_listing import Listed, Listing
from registry.listing.document import is_server_name

DEFAULT_LIMIT = 30
LARGEST_LIMIT = 100
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Query:
    """A query: `after` is a server name, `search` a part of one, `version` exact or `latest`."""

    limit: int = DEFAULT_LIMIT
    after: str = ""
    search: str = ""
    version: str = LATEST
    updated_since: datetime | None = None

    def selects(self, entry: Listed) -> bool:
        """Whether the entry belongs on this page or a later one."""
        return (
            entry.name > self.after
            and self.search.casefold() in entry.name.casefold()
            and self.version in (LATEST, entry.version)
            and (self.updated_since is None or entry.updated_at >= self.updated_since)
        )


def parse_query(
    limit: str | None = None,
    cursor: str | None = None,
    search: str | None = None,
    version: str | None = None,
    updated_since: str | None = None,
) -> Query:
    """Validate the parameters. None, and empty for all but `limit`, means not given.

    Raises:
        Rejected: names the invalid parameter, also in `facts["parameter"]`.
    """
    return Query(
        limit=DEFAULT_LIMIT if limit is None else _limit(limit),
        after=_after(cursor) if cursor else "",
        search=search or "",
        version=version or LATEST,
        updated_since=_time(updated_since) if updated_since else None,
    )


def page(listing: Listing, query: Query) -> JsonObject:
    """Return the page with its count and, when there is more, the cursor of the next one."""
    found = list(islice(filter(query.selects, listing.servers), query.limit + 1))
    shown = found[: query.limit]
    metadata: JsonObject = {"count": len(shown)}
    if len(found) > len(shown):
        metadata["nextCursor"] = _cursor(shown[-1].name)
    return {"servers": [entry.document for entry in shown], "metadata": metadata}


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()


def _limit(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and 1 <= int(value) <= LARGEST_LIMIT):
        raise _refused("limit", f"must be a whole number from 1 to {LARGEST_LIMIT}")
    return int(value)


def _after(cursor: str) -> str:
    try:
        name = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        name = ""
    if not is_server_name(name):
        raise _refused("cursor", "must be a nextCursor from an answer of this registry")
    return name


def _time(value: str) -> datetime:
    try:
        # A plus that was not URL-encoded arrives as a space.
        time = datetime.fromisoformat(value.strip().replace(" ", "+") if "T" in value else "")
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise _refused("updated_since", "must be an RFC 3339 time such as 2026-03-12T10:00:00Z")
    return time


def _refused(parameter: str, reason: str) -> Rejected:
    return Rejected(f"{parameter} {reason}", code="bad_parameter", parameter=parameter)
