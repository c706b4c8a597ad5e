"""`pallas init`: a new team folder."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import AsJson
from pallas_cli.command import command

app = typer.Typer()


@command(app)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the new team: new or empty.")],
    python: Annotated[bool, typer.Option("--python", help="Add an agent written in Python.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a team folder that runs at once, without a key."""
    from pallas_cli.stack.new_team import write_team

    write_team(folder, python=python, as_json=as_json)
