"""`pallas libraries`: libraries, who has which role on them, and what is in them."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from pallas_cli.admin.run import (
    DEFAULT_LIFECYCLE,
    LifecycleUrl,
    Yes,
    confirm,
    one_or_none,
    run_as_admin,
)
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data

app = typer.Typer(no_args_is_help=True, help="Libraries, who has which role on them, and what is in them.")

DEFAULT_SEARCH = "http://127.0.0.1:23067"

SearchUrl = Annotated[
    str, typer.Option("--url", envvar="PALLAS_LIBRARY_SEARCH_URL", help="Address of the library search.")
]
Library = Annotated[str, typer.Argument(metavar="LIBRARY", help="The library's uid.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
Role = Annotated[Literal["owner", "manager", "reader"], typer.Argument(help="owner, manager or reader.")]


@app.command("list")
def list_libraries(
    workspace: Annotated[str | None, typer.Option(metavar="ID", help="Only those of this workspace.")] = None,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List libraries and their workspaces."""
    from pallas_cli.admin.libraries import show_libraries

    run_as_admin(url, data, partial(show_libraries, workspace=workspace, as_json=as_json))


@app.command()
def add(
    library: Library,
    name: Annotated[str | None, typer.Option(help="A name for people. Default: the uid.")] = None,
    workspace: Annotated[str | None, typer.Option(metavar="ID", help="The workspace whose teams read it.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="The user who owns it.")] = None,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Add a library. The same one again changes nothing."""
    from pallas_cli.admin.libraries import add_library

    given = {"uid": library, "name": name or library, "workspace": workspace, "owner": owner}
    run_as_admin(url, data, partial(add_library, **given, as_json=as_json))


@app.command()
def rename(
    library: Library,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Give a library another name."""
    from pallas_cli.admin.libraries import rename_library

    run_as_admin(url, data, partial(rename_library, uid=library, name=name, as_json=as_json))


@app.command()
def move(
    library: Library,
    workspace: Annotated[str | None, typer.Argument(metavar="[WORKSPACE]", help="The workspace's id.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Into no workspace: no team reads it.")] = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Put a library into another workspace: the teams of that one read it from now on. For admins, not for owners."""
    from pallas_cli.admin.libraries import move_library

    one_or_none(workspace, none=none, what="WORKSPACE")
    run_as_admin(url, data, partial(move_library, uid=library, workspace=workspace, as_json=as_json))


@app.command()
def remove(
    library: Library,
    yes: Yes = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Remove a library with its documents and all roles on it, and take it out of all tokens."""
    from pallas_cli.admin.libraries import remove_library

    confirm(f"library {library!r} is removed with its documents", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(remove_library, uid=library, as_json=as_json))


@app.command()
def members(
    library: Annotated[str | None, typer.Argument(metavar="[LIBRARY]", help="Only of this library.")] = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only of this user.")] = None,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List who has which role."""
    from pallas_cli.admin.libraries import show_members

    run_as_admin(url, data, partial(show_members, library=library, user=user, as_json=as_json))


@app.command()
def grant(
    library: Library,
    user: User,
    role: Role,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Give a user a role. Owners and managers may have the library in their tokens."""
    from pallas_cli.admin.libraries import grant_role

    run_as_admin(url, data, partial(grant_role, library=library, user=user, role=role, as_json=as_json))


@app.command()
def revoke(
    library: Library,
    user: User,
    role: Role,
    yes: Yes = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Take a role from a user, and the library out of those of the user's tokens that needed the role."""
    from pallas_cli.admin.libraries import revoke_role

    confirm(f"tokens of {user!r} that needed the role lose library {library!r}", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(revoke_role, library=library, user=user, role=role, as_json=as_json))


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, and folders with all in them.")],
    library: Annotated[str, typer.Option(metavar="UID", help="The library to add them to.")],
    collection: Annotated[str, typer.Option(metavar="NAME", help="The collection of the library.")] = "default",
    url: SearchUrl = DEFAULT_SEARCH,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Add documents to a library: Markdown, text and PDF.

    A file stands in its collection under its path below PATH. What is there already and has not changed is left as it
    is. Exit code 1 when a file could not be added.
    """
    import asyncio

    from pallas_cli.kept_secrets import find_admin_password
    from pallas_cli.libraries.files import find_files
    from pallas_cli.libraries.ingest import Target, ingest_files

    password = find_admin_password(data)
    found = find_files(paths)
    try:
        failed = asyncio.run(ingest_files(Target(url, password, library, collection), found, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(1 if failed else 0)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The team's folder, as workers see it.")],
    lifecycle: Annotated[
        str, typer.Option("--team-lifecycle", envvar="PALLAS_TEAM_LIFECYCLE_URL", help="Address of team-lifecycle.")
    ] = DEFAULT_LIFECYCLE,
    search: Annotated[
        str, typer.Option("--library-search", envvar="PALLAS_LIBRARY_SEARCH_URL", help="Address of the library search.")
    ] = DEFAULT_SEARCH,
    data: Data = DEFAULT_DATA,
) -> None:
    """Make the demo team's library, and keep a JWT to read it where the link `fastagent.secrets.yaml` leads.

    A team without that link has secrets of its own: nothing is done for it. While the JWT that is kept is accepted
    nothing is changed.
    """
    import asyncio
    import os

    from pallas_cli.kept_secrets import find_admin_password, find_service_password
    from pallas_cli.stack.demo_library import Operator, ensure_demo_library
    from pallas_cli.stack.demo_team import prepared_team

    team = prepared_team(folder, os.environ)
    if team is None:
        typer.echo(f"{folder} is not prepared for a library; nothing is done")
        return
    operator = Operator(lifecycle, search, find_admin_password(data), find_service_password(data))
    asyncio.run(ensure_demo_library(team, operator))
    typer.echo(f"team {team.summary.name!r} reads its library")
