"""`pallas tokens`: opaque tokens, for MCP clients of people."""

from functools import partial
from typing import Annotated

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

app = typer.Typer(no_args_is_help=True, help="Opaque tokens, for MCP clients of people.")

Token = Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id, as `list` shows it.")]


@app.command("list")
def list_tokens(
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only those of this user.")] = None,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List tokens: whose they are, what they read, until when they are in force."""
    from pallas_cli.admin.tokens import show_tokens

    run_as_admin(url, data, partial(show_tokens, user=user, as_json=as_json))


@app.command()
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for, as `list` will show it.")],
    user: Annotated[str, typer.Option(metavar="USER", help="Whose token it is.")],
    library: Annotated[
        list[str] | None, typer.Option(metavar="LIBRARY", help="A library that it reads; may be given several times.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="WHEN", help="A span from now on (12h, 90d) or an ISO 8601 time.")
    ] = None,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, once. It reads the libraries named here, which its user owns or manages."""
    from pallas_cli.admin.tokens import issue_token
    from pallas_cli.moments import moment_ahead

    given = {"user": user, "libraries": library or (), "expires": moment_ahead(expires) if expires else None}
    run_as_admin(url, data, partial(issue_token, name=name, **given, as_json=as_json))


@app.command()
def libraries(
    token: Token,
    library: Annotated[
        list[str] | None, typer.Argument(metavar="LIBRARY...", help="What it reads from now on.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="It reads nothing.")] = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Let a token read these libraries and no others."""
    from pallas_cli.admin.tokens import replace_libraries

    one_or_none(library, none=none, what="LIBRARY...")
    run_as_admin(url, data, partial(replace_libraries, token_id=token, libraries=library or (), as_json=as_json))


@app.command()
def revoke(
    token: Token,
    yes: Yes = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Make a token invalid, for good."""
    from pallas_cli.admin.tokens import revoke_token

    confirm(f"token {token} is refused from now on", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(revoke_token, token_id=token, as_json=as_json))
