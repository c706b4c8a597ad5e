"""The question before a change that cannot be undone."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pallas_cli.plain_text import print_plain
from pallas_cli.refused import WrongUsage

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation. The change cannot be undone.")]


def confirm(what: str, *, yes: bool, as_json: bool, after: Sequence[str] = ()) -> None:
    """Print the lines of `after`. Then ask the user to confirm `what`, unless `--yes` was passed.

    Raises:
        WrongUsage: standard input is no terminal, or `as_json` is set.
        Abort: the user answers no.
    """
    for line in after:
        print_plain(line, err=True)
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise WrongUsage(f"to confirm that {what}, pass --yes: it cannot be undone")
    typer.echo(f"If you continue, {what}. It cannot be undone.", err=True)
    typer.confirm("Continue?", abort=True, err=True)
