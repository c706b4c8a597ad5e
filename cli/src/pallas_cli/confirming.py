"""The question before a change that cannot be undone."""

import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage

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
