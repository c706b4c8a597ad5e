"""`pallas agents`: team folders, and later what the running platform knows of agents."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Agents and their team folders.")


@app.command()
def validate(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Team folders.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check team folders, which are to be hosted together, and print every fault. Exit code 1 when there is one."""
    from pallas_cli.team_check import check

    result = check(folders)
    print(json.dumps(result.as_json(), indent=2) if as_json else "\n".join(result.as_lines()))
    raise typer.Exit(0 if result.valid else 1)
