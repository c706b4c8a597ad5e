"""The output of admin commands: one JSON document, or text.

A secret is printed alone on standard output, so that it can be piped; its explanation goes to standard error. No other
function prints secrets.
"""

import json
from collections.abc import Callable, Sequence

from pallas_cli.admin.api import Row
from pallas_cli.plain_text import plain_line, print_plain, print_table

type Columns = dict[str, Callable[[Row], str]]
"""Makes the cell of each column from a row, by the column's header."""


def print_answer(answer: object, sentence: str, *, as_json: bool) -> None:
    """Print an answer."""
    if as_json:
        print(json.dumps(answer, indent=2))
    else:
        print_plain(sentence)


def print_secret(answer: Row, secret: str, sentence: str, *, as_json: bool) -> None:
    """Print an answer with a secret that cannot be shown again."""
    print_answer(answer, secret, as_json=as_json)
    if not as_json:
        print_plain(f"{sentence} It cannot be shown again.", err=True)


def print_rows(rows: Sequence[Row], columns: Columns, *, nothing: str, as_json: bool) -> None:
    """Print a list."""
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print_plain(nothing)
    else:
        print_table(list(columns), ([cell(row) for cell in columns.values()] for row in rows))


def print_row(row: Row, columns: Columns, *, as_json: bool) -> None:
    """Print one item: its first column alone, the others below it."""
    first, *others = columns
    lines = [columns[first](row), *(f"  {name}: {columns[name](row)}" for name in others)]
    print_answer(row, "\n".join(map(plain_line, lines)), as_json=as_json)


def date(moment: str | None) -> str:
    """A time as a cell."""
    return moment[:19].replace("T", " ") if moment else "-"


def listed(names: Sequence[str]) -> str:
    """Names as a cell."""
    return ", ".join(names) or "-"
