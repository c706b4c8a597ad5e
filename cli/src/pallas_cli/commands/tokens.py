"""`pallas tokens`: opaque tokens for the MCP clients of users."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import LifecycleUrl, one_or_none, run_as_admin
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page

app = typer.Typer()

Token = Annotated[str, typer.Argument(metavar="TOKEN", help="Id of the token, as `list` shows it.")]


@app.command("list")
def list_tokens(
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only tokens of this user.")] = None,
    limit: Limit = None,
    after: After = None,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List tokens with their users, libraries, expiry and state."""
    from pallas_cli.admin.tokens import show_tokens

    run_as_admin(url, data, partial(show_tokens, user=user, page=Page(limit, after), as_json=as_json))


@app.command()
def show(token: Token, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one token, without its text."""
    from pallas_cli.admin.tokens import show_token

    run_as_admin(url, data, partial(show_token, name=token, as_json=as_json))


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the token, as `list` shows it.")],
    user: Annotated[str, typer.Option(metavar="USER", help="User who owns the token.")],
    library: Annotated[
        list[str] | None, typer.Option(metavar="LIBRARY", help="Library that it can read. May be repeated.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Time span from now (12h, 90d) or ISO 8601 time. [default: never]"),
    ] = None,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it once. Its user must own or manage the libraries that it can read."""
    from pallas_cli.admin.tokens import create_token
    from pallas_cli.moments import moment_ahead

    given = {"user": user, "libraries": library or (), "expires": moment_ahead(expires) if expires else None}
    run_as_admin(url, data, partial(create_token, name=name, **given, as_json=as_json))


@app.command()
def libraries(
    token: Token,
    library: Annotated[list[str] | None, typer.Argument(metavar="LIBRARY", help="Uids of the libraries.")] = None,
    none: Annotated[bool, typer.Option("--none", help="The token can read nothing.")] = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Replace the libraries that a token can read."""
    from pallas_cli.admin.tokens import replace_libraries

    one_or_none(library, none=none, what="LIBRARY...")
    run_as_admin(url, data, partial(replace_libraries, token_id=token, libraries=library or (), as_json=as_json))


@app.command()
def delete(
    token: Token,
    yes: Yes = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Delete a token. It becomes invalid, and `list` goes on showing it as revoked."""
    from pallas_cli.admin.tokens import delete_token

    confirm(f"token {token} becomes invalid", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(delete_token, token_id=token, as_json=as_json))
