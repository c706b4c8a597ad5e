"""`pallas pipelines`: programs and stored pipelines, at the pipelines service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.options import Token
from pallas_cli.paging import After, Limit, Page

if TYPE_CHECKING:
    from pallas_cli.pipelines.api import PipelinesApi

app = typer.Typer()

File = Annotated[str, typer.Argument(metavar="FILE", help="File with a program, or - for standard input.")]
Ref = Annotated[str, typer.Argument(metavar="REF", help="Name of a stored pipeline, or sha256: and its hash.")]
Url = Annotated[
    str | None,
    typer.Option(envvar="PALLAS_PIPELINES_URL", help=help_of("Address of the pipelines service.", "pipelines")),
]


def _api(url: str | None, token: str | None, data: Path) -> "PipelinesApi":
    from pallas_cli.kept_secrets import find_token
    from pallas_cli.pipelines.api import PipelinesApi

    return PipelinesApi(find_address(url, data, "pipelines"), find_token(token))


@app.command()
def validate(
    file: File, url: Url = None, token: Token = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Check a program: syntax, names and types. Exit code 1 if it has faults."""
    from pallas_cli.pipelines.programs import validate

    validate(_api(url, token, data), file, as_json=as_json)


@app.command("compile")
def compile_program(
    file: File,
    name: Annotated[str | None, typer.Option(help="Store it under this name.")] = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Compile a program and print its signature. Exit code 1 if it has faults."""
    from pallas_cli.pipelines.programs import compile_

    compile_(_api(url, token, data), file, name, as_json=as_json)


@app.command()
def run(
    program: Annotated[
        str,
        typer.Argument(
            metavar="FILE|REF", help="File with a program, - for standard input, or a reference to a stored pipeline."
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUE",
            help="Value of an input: JSON, or else a text. A text that is JSON needs its quotes: 'id=\"7\"'.",
        ),
    ] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with all inputs as a JSON object, or -.")
    ] = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Run a program or a stored pipeline and print its outputs. Ctrl-C ends it. Exit code 1 if it does not complete."""
    from pallas_cli.pipelines.running import run
    from pallas_cli.pipelines.sources import read_inputs
    from pallas_cli.refused import WrongUsage

    if program == inputs == "-":
        raise WrongUsage("only one of the program and the inputs can be on standard input")
    try:
        run(_api(url, token, data), program, read_inputs(inputs, values or ()), as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command("list")
def list_pipelines(
    limit: Limit = None,
    after: After = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List stored pipelines: your own and the shared ones."""
    from pallas_cli.pipelines.stored import show_pipelines

    show_pipelines(_api(url, token, data), page=Page(limit, after), as_json=as_json)


@app.command()
def show(
    ref: Ref,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print its graph as a Mermaid flowchart.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write its graph as an SVG picture.")] = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show a stored pipeline: signature, hash, and source if yours."""
    from pallas_cli.pipelines.stored import show_pipeline

    show_pipeline(_api(url, token, data), ref, mermaid=mermaid, svg=svg, as_json=as_json)


@app.command()
def history(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of executions.")] = 50,
    after: After = None,
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List your past executions, the latest first."""
    from pallas_cli.pipelines.stored import show_history

    show_history(_api(url, token, data), limit, after, as_json=as_json)


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="FILE|REF", help="The one program: a file, or a reference.")],
    right: Annotated[str, typer.Argument(metavar="FILE|REF", help="The other program.")],
    url: Url = None,
    token: Token = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Compare two programs: inputs, outputs, calls and text. Exit code 1 if they do not do the same."""
    from pallas_cli.pipelines.programs import diff

    diff(_api(url, token, data), left, right, as_json=as_json)
