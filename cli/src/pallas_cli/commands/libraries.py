"""`pallas libraries`: the table of libraries and their members, and commands for their documents."""

import os
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.command import command
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.kept_secrets import find_admin_password
from pallas_cli.libraries import Target, find_files, ingest_files
from pallas_cli.plain_text import print_answer
from pallas_cli.rest.lifecycle import LIBRARIES

app = LIBRARIES.app

LIFECYCLE_HELP = help_of("Address of team-lifecycle.", "team_lifecycle")
CONSOLE_HELP = help_of("Address of the console.", "workspaces")
SEARCH_HELP = help_of("Address of library-search.", "library_search")

SearchUrl = Annotated[str | None, typer.Option("--url", envvar="PALLAS_LIBRARY_SEARCH_URL", help=SEARCH_HELP)]


@command(app)
async def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files, or folders with all their files.")],
    library: Annotated[str, typer.Option(metavar="UID", help="Library that gets the documents.")],
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection of the library.")] = "default",
    url: SearchUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Add documents to a library: Markdown, text and PDF.

    A document's path in the collection is the path of its file below PATH. Unchanged documents are not uploaded again.
    Exit code 1 if a file could not be added.
    """
    target = Target(find_address(url, data, "library_search"), find_admin_password(data), library, collection)
    failed = await ingest_files(target, find_files(paths), as_json=as_json)
    raise typer.Exit(1 if failed else 0)


@command(app)
async def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the demo team, as workers see it.")],
    lifecycle: Annotated[
        str | None, typer.Option("--team-lifecycle", envvar="PALLAS_TEAM_LIFECYCLE_URL", help=LIFECYCLE_HELP)
    ] = None,
    search: Annotated[
        str | None, typer.Option("--library-search", envvar="PALLAS_LIBRARY_SEARCH_URL", help=SEARCH_HELP)
    ] = None,
    console: Annotated[str | None, typer.Option("--console", envvar="PALLAS_WORKSPACES_URL", help=CONSOLE_HELP)] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            envvar="PALLAS_REGISTRY_URL", help=help_of("Address of the registry, for the console.", "registry")
        ),
    ] = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Register the demo team with a library. Its JWT is written to the target of the link `fastagent.secrets.yaml`.

    Nothing happens if the folder has no such link (the team then has its own secrets), or if the JWT in the file is
    still valid.
    """
    from pallas_cli.stack.demo_library import Operator, ensure_demo_library
    from pallas_cli.stack.demo_team import prepared_team

    team = prepared_team(folder, os.environ)
    if team is None:
        said = f"{folder} has no link fastagent.secrets.yaml, or no documents: nothing to do"
        print_answer({"team": None}, said, as_json=as_json)
        return
    operator = Operator(
        find_address(lifecycle, data, "team_lifecycle"),
        find_address(search, data, "library_search"),
        find_address(console, data, "workspaces"),
        find_address(registry, data, "registry"),
        find_admin_password(data),
    )
    await ensure_demo_library(team, operator)
    name = team.summary.name
    print_answer({"team": name}, f"team {name!r} can read its library", as_json=as_json)
