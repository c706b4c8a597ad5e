"""`--limit` and `--after` of commands that list: a part of the rows, and where the next part begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from pallas_cli.plain_text import plain_line, print_plain
from pallas_cli.refused import WrongUsage

Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows. [default: all]")]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="ROW", help="Go on behind this row, which the last line of a limited list names."),
]


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` rows, those behind the row `after`. None: all, from the first one."""

    limit: int | None = None
    after: str | None = None

    def cut[R](self, rows: Sequence[R], name: Callable[[R], str]) -> Sequence[R]:
        """The part of rows that were read as a whole. `name` is what `--after` says for a row.

        Raises:
            WrongUsage: there is no row `after`.
        """
        names = [name(row) for row in rows]
        if self.after is not None and self.after not in names:
            raise WrongUsage(f"--after: the list has no row {self.after!r}")
        begin = names.index(self.after) + 1 if self.after is not None else 0
        end = len(rows) if self.limit is None else begin + self.limit
        if end < len(rows):
            say_more(names[end - 1])
        return rows[begin:end]


WHOLE = Page()


def say_more(last: str) -> None:
    """Say on standard error that more rows follow the last one."""
    print_plain(plain_line(f"more: --after {last}"), err=True)
