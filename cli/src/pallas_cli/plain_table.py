"""Tables that fit a terminal and stay whole in a pipe."""

import sys
from collections.abc import Iterable, Sequence

_WIDE = 400


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headers; piped, each row is one line however long it is. The first column is never cut."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    # Names are shown as they are, whatever rich could read into them.
    Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, emoji=False).print(table)
