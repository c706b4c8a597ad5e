"""Tables for a terminal or a pipe."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from pallas_cli.plain_text import plain_line

_WIDE = 2000
_LONGEST, _LONGEST_LAST = 80, 240
"""The most characters of a cell, and of a cell of the last column, which often has a sentence."""


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headers. In a pipe each row is one line. Long cells end in an ellipsis, except the first."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, no_wrap=number == 0)
    for row in rows:
        table.add_row(*_cells(row))
    # Names are printed literally, not as rich's markup.
    Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, emoji=False).print(table)


def _cells(row: Sequence[str]) -> Iterator[str]:
    for number, cell in enumerate(map(plain_line, row), 1):
        longest = len(cell) if number == 1 else _LONGEST_LAST if number == len(row) else _LONGEST
        yield cell if len(cell) <= longest else f"{cell[: longest - 1]}…"
