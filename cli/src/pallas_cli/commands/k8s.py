"""`pallas k8s`: what Kubernetes is told of team folders."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Manifests for Kubernetes.")


@app.callback()
def about() -> None:
    """Manifests for Kubernetes that follow from team folders."""


@app.command()
def scaledobject(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Team folders, hosted together.")],
    name: Annotated[str, typer.Option(help="Deployment of the workers that host them.")] = "agent-worker",
    namespace: Annotated[str, typer.Option(help="Namespace of the broker.")] = "pallas",
    slots: Annotated[int, typer.Option(min=1, help="PALLAS_SLOTS of the workers.")] = 64,
    least: Annotated[int, typer.Option("--min", min=0, help="Workers when nothing is to be done.")] = 0,
    most: Annotated[int, typer.Option("--max", min=1, help="Workers at most.")] = 10,
) -> None:
    """Print the KEDA ScaledObject by which workers are started and stopped for the turns of these teams."""
    from pallas_cli.agents.scaled_object import Scaling, scaled_object

    print(scaled_object(folders, Scaling(name, namespace, slots, least, most)), end="")
