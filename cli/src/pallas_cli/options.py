"""Options that commands share: who asks, and at which gateway; which part of a list; and that a change is wanted.

Those for the broker are in `broker.py`.
"""

import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any

import typer

from pallas_cli.kept_addresses import help_of
from pallas_cli.plain_text import plain_line, print_plain
from pallas_cli.refused import Refused, WrongUsage

Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="BEARER",
        help="Bearer token. The process list shows it to other users: prefer PALLAS_TOKEN, PALLAS_TOKEN_FILE with the "
        "path of a file, or a context.",
    ),
]
GatewayUrl = Annotated[
    str | None, typer.Option("--url", envvar="PALLAS_GATEWAY_URL", help=help_of("Address of the gateway.", "gateway"))
]


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation. The change cannot be undone.")]


def confirm(what: str, *, yes: bool, as_json: bool, after: Sequence[str] = ()) -> None:
    """Print the lines of `after`. Then ask the user to confirm `what`, unless `--yes` was passed.

    Raises:
        WrongUsage: standard input is no terminal, or `as_json` is set.
        Refused: the user answers no.
        Exit: with code 130, after Ctrl-C.
    """
    for line in after:
        print_plain(line, err=True)
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise WrongUsage(f"to confirm that {what}, pass --yes: it cannot be undone")
    typer.echo(f"If you continue, {what}. It cannot be undone.", err=True)
    if not _agreed():
        raise Refused("not confirmed", word="declined")


def _agreed() -> bool:
    """Ask; the end of the input means no."""
    try:
        with _interruptible():
            return typer.confirm("Continue?", err=True)
    except typer.Abort as abort:
        typer.echo(err=True)
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise typer.Exit(130) from None
        return False


@contextmanager
def _interruptible() -> Generator[None]:
    """Ctrl-C ends the question also inside an event loop, whose own handler would wait for the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows. [default: all]")]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="ROW", help="Go on behind this row, which the last line of a limited list names."),
]


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` rows, those behind the row `after`. None: all, from the first one."""

    limit: Limit = None
    after: After = None

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


def argument(
    name: str, about: str, kind: Any = str, *, metavar: str | None = None, complete: Any = None, **default: Any
) -> Parameter:
    """An argument; with a `default` it may be left out."""
    metavar = metavar or name.upper()
    annotation = Annotated[kind, typer.Argument(metavar=metavar, help=about, autocompletion=complete)]
    return parameter(name, annotation, default.get("default", Parameter.empty))


def option(name: str, about: str, kind: Any = str | None, *words: str, **more: Any) -> Parameter:
    """An option. It may be left out, unless its `default` is `Parameter.empty`."""
    default = more.pop("default", None)
    return parameter(name, Annotated[kind, typer.Option(*words, help=about, **more)], default)


def flag(name: str, about: str) -> Parameter:
    """An option without a value."""
    return option(name, about, bool, f"--{name}", default=False)


def parameter(name: str, annotation: Any, default: Any = None) -> Parameter:
    """A parameter of a command that is made of a table."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
