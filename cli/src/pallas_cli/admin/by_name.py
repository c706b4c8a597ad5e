"""Finds a row by what a person types: an id, or a name that only one has, in any case."""

from collections.abc import Sequence

from pallas_cli.admin.api import Row
from pallas_cli.plain_text import plain_line
from pallas_cli.refused import Refused

MOST_NAMED = 20
"""How many names an error lists."""


def find_row(rows: Sequence[Row], given: str, what: str) -> Row:
    """By the id, else by the name; upper and lower case count only where several names differ in nothing else.

    Raises:
        Refused: there is none, or several have this name.
    """
    folded = given.casefold()
    found = (
        [row for row in rows if row["id"] == given]
        or [row for row in rows if row["name"] == given]
        or [row for row in rows if folded in (row["id"].casefold(), row["name"].casefold())]
    )
    if not found:
        raise Refused(f"no {what} has the id or name {plain_line(given)!r}{_those_there(rows)}", word="not_found")
    if len(found) > 1:
        ids = ", ".join(row["id"] for row in found)
        raise Refused(f"several {what}s have the name {plain_line(given)!r}: {ids}")
    return found[0]


def _those_there(rows: Sequence[Row]) -> str:
    names = sorted((plain_line(row["name"]) for row in rows), key=str.casefold)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; there are: {', '.join(names[:MOST_NAMED])}{more}" if names else ""
