"""`pallas keys`: the keys that sign JWTs."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import typer

from pallas_cli.admin.run import LifecycleUrl, listed, run_as_admin
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.confirming import Yes, confirm

app = typer.Typer()

Key = Annotated[str, typer.Argument(metavar="KEY", help="Id of the key (`kid`), as `list` shows it.")]


@listed(app)
def list_keys() -> Callable[..., None]:
    """List keys, oldest first, with their purpose and state."""
    from pallas_cli.admin.keys import show_keys

    return show_keys


@app.command()
def show(key: Key, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one key, without its secret."""
    from pallas_cli.admin.keys import show_key

    run_as_admin(url, data, partial(show_key, name=key, as_json=as_json))


@app.command()
def create(
    purpose: Annotated[
        Literal["team", "turn"],
        typer.Argument(
            metavar="PURPOSE",
            help="team: signs team JWTs, here. turn: signs per-turn JWTs, in a system that calls for its users.",
        ),
    ],
    algorithm: Annotated[
        Literal["HS256", "EdDSA"] | None, typer.Option(help="Signature algorithm. [default: team-lifecycle's setting]")
    ] = None,
    current: Annotated[bool, typer.Option("--current", help="Sign new team JWTs with this key.")] = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a key. The secret of a key for per-turn JWTs is printed once and cannot be shown again."""
    from pallas_cli.admin.keys import create_key

    run_as_admin(url, data, partial(create_key, purpose=purpose, algorithm=algorithm, current=current, as_json=as_json))


@app.command()
def make_current(key: Key, url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Sign new team JWTs with this key. JWTs signed with other keys stay valid."""
    from pallas_cli.admin.keys import make_current as make_key_current

    run_as_admin(url, data, partial(make_key_current, kid=key, as_json=as_json))


@app.command()
def retire(
    key: Key,
    yes: Yes = False,
    url: LifecycleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Retire a key. Every JWT signed with it becomes invalid permanently."""
    from pallas_cli.admin.keys import retire_key

    confirm(f"every JWT signed with key {key} becomes invalid", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(retire_key, kid=key, as_json=as_json))


@app.command()
def reseal(url: LifecycleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Encrypt all keys with the first of PALLAS_FERNET_KEYS. The others can then be removed."""
    from pallas_cli.admin.keys import reseal_keys

    run_as_admin(url, data, partial(reseal_keys, as_json=as_json))
