"""`pallas k8s`: Kubernetes manifests generated from team folders."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import AsJson

app = typer.Typer(no_args_is_help=True, help="Kubernetes manifests generated from team folders.")


@app.callback()
def about() -> None:
    """Kubernetes manifests generated from team folders."""


@app.command()
def scaledobject(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Team folders that one worker hosts together.")
    ],
    name: Annotated[str, typer.Option(help="Name of the workers' Deployment.")] = "agent-worker",
    namespace: Annotated[str, typer.Option(help="Namespace of the broker.")] = "pallas",
    slots: Annotated[int, typer.Option(min=1, help="Slots of each worker (PALLAS_SLOTS).")] = 64,
    least: Annotated[int, typer.Option("--min", min=0, help="Minimum number of workers.")] = 0,
    most: Annotated[int, typer.Option("--max", min=1, help="Maximum number of workers.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Print the KEDA ScaledObject that scales the workers of these teams by their queued turns."""
    from pallas_cli.agents.scaled_object import Scaling, scaled_object

    print(scaled_object(folders, Scaling(name, namespace, slots, least, most), as_json=as_json), end="")
