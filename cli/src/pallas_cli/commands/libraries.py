"""`pallas libraries`: libraries, their members and their documents."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from pallas_cli.admin.run import CONSOLE_HELP, LIFECYCLE_HELP, LifecycleUrl, one_or_none, run_as_admin
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.confirming import Yes, confirm
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.paging import After, Limit, Page

app = typer.Typer()

SEARCH_HELP = help_of("Address of library-search.", "library_search")

SearchUrl = Annotated[str | None, typer.Option("--url", envvar="PALLAS_LIBRARY_SEARCH_URL", help=SEARCH_HELP)]
Library = Annotated[str, typer.Argument(metavar="LIBRARY", help="Uid of the library.")]
User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
Role = Annotated[
    Literal["owner", "manager", "reader"], typer.Argument(metavar="ROLE", help="Role of the user on the library.")
]


@app.command("list")
def list_libraries(
    workspace: Annotated[str | None, typer.Option(metavar="ID", help="Only libraries of this workspace.")] = None,
    limit: Limit = None,
    after: After = None,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List libraries with their workspaces."""
    from pallas_cli.admin.libraries import show_libraries

    run_as_admin(url, data, partial(show_libraries, workspace=workspace, page=Page(limit, after), as_json=as_json))


@app.command()
def show(library: Library, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one library."""
    from pallas_cli.admin.libraries import show_library

    run_as_admin(url, data, partial(show_library, name=library, as_json=as_json))


@app.command()
def create(
    library: Library,
    name: Annotated[str | None, typer.Option(help="Display name. [default: the uid]")] = None,
    workspace: Annotated[str | None, typer.Option(metavar="ID", help="Workspace whose teams can read it.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="User who owns it.")] = None,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a library. Creating the same library again changes nothing."""
    from pallas_cli.admin.libraries import create_library

    given = {"uid": library, "name": name or library, "workspace": workspace, "owner": owner}
    run_as_admin(url, data, partial(create_library, **given, as_json=as_json))


@app.command()
def rename(
    library: Library,
    name: Annotated[str, typer.Argument(metavar="NAME", help="New display name.")],
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Change the display name of a library."""
    from pallas_cli.admin.libraries import rename_library

    run_as_admin(url, data, partial(rename_library, uid=library, name=name, as_json=as_json))


@app.command()
def move(
    library: Library,
    workspace: Annotated[str | None, typer.Argument(metavar="WORKSPACE", help="Id of the workspace.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove it from its workspace: no team can read it.")] = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Move a library to another workspace, whose teams can then read it. Only an admin can do this."""
    from pallas_cli.admin.libraries import move_library

    one_or_none(workspace, none=none, what="WORKSPACE")
    run_as_admin(url, data, partial(move_library, uid=library, workspace=workspace, as_json=as_json))


@app.command()
def delete(
    library: Library,
    yes: Yes = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a library with its documents and memberships. It is removed from all tokens."""
    from pallas_cli.admin.libraries import delete_library

    confirm(f"library {library!r} and its documents are deleted", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(delete_library, uid=library, as_json=as_json))


@app.command()
def members(
    library: Annotated[str | None, typer.Argument(metavar="LIBRARY", help="Only members of this library.")] = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only memberships of this user.")] = None,
    limit: Limit = None,
    after: After = None,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List users with their roles on libraries."""
    from pallas_cli.admin.libraries import show_members

    run_as_admin(url, data, partial(show_members, library=library, user=user, page=Page(limit, after), as_json=as_json))


@app.command()
def grant(
    library: Library,
    user: User,
    role: Role,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Give a user a role on a library. Tokens of owners and managers may read the library."""
    from pallas_cli.admin.libraries import grant_role

    run_as_admin(url, data, partial(grant_role, library=library, user=user, role=role, as_json=as_json))


@app.command()
def revoke(
    library: Library,
    user: User,
    role: Role,
    yes: Yes = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Take a role from a user. The library is removed from the user's tokens that needed the role."""
    from pallas_cli.admin.libraries import revoke_role

    confirm(f"tokens of {user!r} that needed the role lose library {library!r}", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(revoke_role, library=library, user=user, role=role, as_json=as_json))


@app.command()
def ingest(
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
    import asyncio

    from pallas_cli.kept_secrets import find_admin_password
    from pallas_cli.libraries import Target, find_files, ingest_files

    target = Target(find_address(url, data, "library_search"), find_admin_password(data), library, collection)
    found = find_files(paths)
    try:
        failed = asyncio.run(ingest_files(target, found, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(1 if failed else 0)


@app.command()
def demo(
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
    import asyncio
    import os

    from pallas_cli.admin.output import print_answer
    from pallas_cli.kept_secrets import find_admin_password
    from pallas_cli.stack.demo_library import Operator, ensure_demo_library
    from pallas_cli.stack.demo_team import prepared_team

    team = prepared_team(folder, os.environ)
    if team is None:
        print_answer(
            {"team": None},
            f"{folder} has no link fastagent.secrets.yaml, or no documents: nothing to do",
            as_json=as_json,
        )
        return
    operator = Operator(
        find_address(lifecycle, data, "team_lifecycle"),
        find_address(search, data, "library_search"),
        find_address(console, data, "workspaces"),
        find_address(registry, data, "registry"),
        find_admin_password(data),
    )
    asyncio.run(ensure_demo_library(team, operator))
    name = team.summary.name
    print_answer({"team": name}, f"team {name!r} can read its library", as_json=as_json)
