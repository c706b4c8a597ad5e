"""`pallas libraries`: libraries and what is in them."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import AsJson

app = typer.Typer(no_args_is_help=True, help="Libraries and what is in them.")

DEFAULT_SEARCH = "http://127.0.0.1:23067"

SearchUrl = Annotated[
    str, typer.Option("--url", envvar="PALLAS_LIBRARY_SEARCH_URL", help="Address of the library search.")
]
AdminPassword = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar="PALLAS_ADMIN_PASSWORD",
        show_envvar=True,
        help="Password of the account `admin`; better kept in the environment.",
    ),
]


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, and folders with all in them.")],
    library: Annotated[str, typer.Option(metavar="UID", help="The library to add them to.")],
    collection: Annotated[str, typer.Option(metavar="NAME", help="The collection of the library.")] = "default",
    url: SearchUrl = DEFAULT_SEARCH,
    password: AdminPassword = None,
    as_json: AsJson = False,
) -> None:
    """Add documents to a library: Markdown, text and PDF.

    A file stands in its collection under its path below PATH. What is there already and has not changed is left as it
    is. Exit code 1 when a file could not be added.
    """
    import asyncio

    from pallas_cli.library_files import find_files
    from pallas_cli.library_ingest import Target, ingest_files
    from pallas_cli.refused import Refused

    if not password:
        raise Refused("the password of the account `admin` is needed: set PALLAS_ADMIN_PASSWORD")
    found = find_files(paths)
    try:
        failed = asyncio.run(ingest_files(Target(url, password, library, collection), found, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(1 if failed else 0)
