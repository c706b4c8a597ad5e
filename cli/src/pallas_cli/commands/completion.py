"""`pallas completion`: the script with which a shell completes commands, agents, turns and teams."""

import os
from typing import Annotated, Literal

import typer

app = typer.Typer()


@app.command()
def completion(
    ctx: typer.Context,
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="The shell that is to read the script.")
    ],
) -> None:
    """Print the completion script of a shell. A shell reads it when it starts:  eval "$(pallas completion bash)".

    In fish: pallas completion fish | source. `pallas --install-completion` puts it into the shell's own files.
    """
    root = ctx.find_root()
    os.environ["_PALLAS_COMPLETE"] = f"source_{shell}"
    root.command.main(args=[], prog_name="pallas")
