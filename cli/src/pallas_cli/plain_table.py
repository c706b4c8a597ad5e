"""Tables for a terminal or a pipe."""

import sys
from collections.abc import Iterable, Sequence

_WIDE = 400


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headers. In a pipe each row is one line of any length. The first column is never cut."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    # Names are printed literally, not as rich's markup.
    Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, emoji=False).print(table)
