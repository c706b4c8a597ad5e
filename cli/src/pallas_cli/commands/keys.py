"""`pallas keys`: what JWTs are signed by."""

from functools import partial
from typing import Annotated, Literal

import typer

from pallas_cli.admin.run import DEFAULT_LIFECYCLE, LifecycleUrl, Yes, confirm, run_as_admin
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data

app = typer.Typer(no_args_is_help=True, help="Signing keys, of the JWTs of teams and of per-turn JWTs.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key's id (`kid`), as `list` shows it.")]


@app.command("list")
def list_keys(url: LifecycleUrl = DEFAULT_LIFECYCLE, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """List keys, the oldest first: what they are for, and whether their JWTs are valid."""
    from pallas_cli.admin.keys import show_keys

    run_as_admin(url, data, partial(show_keys, as_json=as_json))


@app.command()
def add(
    purpose: Annotated[
        Literal["team", "turn"],
        typer.Argument(help="team: signs the JWTs of teams, here. turn: signs per-turn JWTs, at Daedalus."),
    ],
    algorithm: Annotated[
        Literal["HS256", "EdDSA"] | None, typer.Option(help="Default: that of team-lifecycle's settings.")
    ] = None,
    current: Annotated[bool, typer.Option("--current", help="Sign the JWTs of teams by it from now on.")] = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Make a key. The secret of one for per-turn JWTs is printed, once."""
    from pallas_cli.admin.keys import add_key

    run_as_admin(url, data, partial(add_key, purpose=purpose, algorithm=algorithm, current=current, as_json=as_json))


@app.command()
def make_current(
    key: Key, url: LifecycleUrl = DEFAULT_LIFECYCLE, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Sign the JWTs of teams by this key from now on; those of other keys stay valid."""
    from pallas_cli.admin.keys import make_current as make_key_current

    run_as_admin(url, data, partial(make_key_current, kid=key, as_json=as_json))


@app.command()
def retire(
    key: Key,
    yes: Yes = False,
    url: LifecycleUrl = DEFAULT_LIFECYCLE,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Make every JWT of a key invalid, for good."""
    from pallas_cli.admin.keys import retire_key

    confirm(f"every JWT of key {key} is refused from now on", yes=yes, as_json=as_json)
    run_as_admin(url, data, partial(retire_key, kid=key, as_json=as_json))


@app.command()
def reseal(url: LifecycleUrl = DEFAULT_LIFECYCLE, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Encrypt all keys by the first of PALLAS_FERNET_KEYS, so that the others can go."""
    from pallas_cli.admin.keys import reseal_keys

    run_as_admin(url, data, partial(reseal_keys, as_json=as_json))
