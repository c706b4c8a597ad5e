"""What a command of an admin prints: one JSON document, or something for people.

A secret goes to standard output alone, so that it can be piped to where it belongs; what is said about it goes to
standard error. Nothing else may print one.
"""

import json
import sys
from collections.abc import Callable, Sequence

from pallas_cli.admin.api import Row
from pallas_cli.plain_table import print_table

type Columns = dict[str, Callable[[Row], str]]
"""How each column's cell, by the column's header, is made of a row."""


def tell(answer: object, sentence: str, *, as_json: bool) -> None:
    """Print an answer."""
    print(json.dumps(answer, indent=2) if as_json else sentence)


def tell_once(answer: Row, secret: str, sentence: str, *, as_json: bool) -> None:
    """Print an answer that has a secret which nobody can show again."""
    tell(answer, secret, as_json=as_json)
    if not as_json:
        print(f"{sentence} It is shown this once.", file=sys.stderr)


def tell_rows(rows: Sequence[Row], columns: Columns, *, nothing: str, as_json: bool) -> None:
    """Print a list."""
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print(nothing)
    else:
        print_table(list(columns), ([cell(row) for cell in columns.values()] for row in rows))


def date(moment: str | None) -> str:
    """A time of an answer, as a cell."""
    return moment[:19].replace("T", " ") if moment else "-"


def listed(names: Sequence[str]) -> str:
    """Names, as a cell."""
    return ", ".join(names) or "-"
