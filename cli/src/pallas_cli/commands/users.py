"""`pallas users`: the owners of opaque tokens."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from pallas_cli.admin.run import LifecycleUrl, listed, run_as_admin
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data

app = typer.Typer()

User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


@listed(app)
def list_users() -> Callable[..., None]:
    """List users and whether they are active."""
    from pallas_cli.admin.users import show_users

    return show_users


@app.command()
def show(user: User, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one user."""
    from pallas_cli.admin.users import show_user

    run_as_admin(url, data, partial(show_user, name=user, as_json=as_json))


@app.command()
def create(user: User, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Create a user. An existing user is not changed."""
    from pallas_cli.admin.users import create_user

    run_as_admin(url, data, partial(create_user, name=user, as_json=as_json))


@app.command()
def deactivate(user: User, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Deactivate a user. All tokens of the user are refused until `activate`."""
    from pallas_cli.admin.users import set_active

    run_as_admin(url, data, partial(set_active, name=user, active=False, as_json=as_json))


@app.command()
def activate(user: User, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Activate a user again: the user's tokens are accepted."""
    from pallas_cli.admin.users import set_active

    run_as_admin(url, data, partial(set_active, name=user, active=True, as_json=as_json))


@app.command()
def scopes(user: User, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """List the libraries that a user's tokens may read. The user owns or manages them."""
    from pallas_cli.admin.users import show_scopes

    run_as_admin(url, data, partial(show_scopes, name=user, as_json=as_json))
