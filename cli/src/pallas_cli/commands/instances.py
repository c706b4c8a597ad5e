"""`pallas instances`: the Pallas instances that the console knows, and the JWTs of their teams."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.admin.run import ConsoleUrl, run_at_console
from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page

app = typer.Typer()

TokenFile = Annotated[
    Path | None,
    typer.Option("--agent-token-file", metavar="FILE", help="File with the bearer token that its agents want."),
]
Instance = Annotated[str, typer.Argument(metavar="INSTANCE", help="Id of the instance, or its name.")]


@app.command("list")
def list_instances(
    limit: Limit = None,
    after: After = None,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List instances with the state of their teams."""
    from pallas_cli.workspaces.instances import show_instances

    run_at_console(url, data, partial(show_instances, page=Page(limit, after), as_json=as_json))


@app.command()
def show(instance: Instance, url: ConsoleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Show one instance with its agents."""
    from pallas_cli.workspaces.instances import show_instance

    run_at_console(url, data, partial(show_instance, given=instance, as_json=as_json))


@app.command()
def create(
    registry: Annotated[
        str,
        typer.Argument(
            metavar="REGISTRY", help="Address of its registry, such as http://127.0.0.1:23030/teams/demo for one team."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Display name. [default: the console derives one]")] = None,
    team: Annotated[
        str | None,
        typer.Option("--id", metavar="UUID", help="Id of the team, if it is registered. [default: a new one]"),
    ] = None,
    token_file: TokenFile = None,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create the entry of an instance, and provision its team."""
    from pallas_cli.workspaces.instances import create_instance

    work = partial(create_instance, url=registry, name=name, team=team, token=_token(token_file), as_json=as_json)
    run_at_console(url, data, work)


@app.command()
def change(
    instance: Instance,
    name: Annotated[str | None, typer.Option(help="New display name.")] = None,
    registry: Annotated[str | None, typer.Option(help="New address of its registry: the team stays the same.")] = None,
    token_file: TokenFile = None,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Change an instance: name, address, token of its agents."""
    from pallas_cli.workspaces.instances import change_instance

    token = _token(token_file)
    work = partial(change_instance, given=instance, name=name, registry=registry, token=token, as_json=as_json)
    run_at_console(url, data, work)


@app.command()
def refresh(instance: Instance, url: ConsoleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Fetch an instance's registry again, and show its agents."""
    from pallas_cli.workspaces.instances import refresh_instance

    run_at_console(url, data, partial(refresh_instance, given=instance, as_json=as_json))


@app.command()
def delete(
    instance: Instance, yes: Yes = False, url: ConsoleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Delete an instance. It is detached from all workspaces, and the JWT of its team becomes invalid."""
    from pallas_cli.workspaces.instances import delete_instance

    confirm(f"instance {instance} and its team are deleted", yes=yes, as_json=as_json)
    run_at_console(url, data, partial(delete_instance, given=instance, as_json=as_json))


@app.command()
def rotate(
    instance: Instance, yes: Yes = False, url: ConsoleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Give the team of an instance a new JWT. It can be revealed once. The previous one becomes invalid."""
    from pallas_cli.workspaces.instances import rotate_instance

    confirm(f"the current JWT of instance {instance} becomes invalid", yes=yes, as_json=as_json)
    run_at_console(url, data, partial(rotate_instance, given=instance, as_json=as_json))


@app.command()
def reveal(
    instance: Instance,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Put it into this file, such as the team's fastagent.secrets.yaml, without showing it. "
            "Its other content is kept.",
        ),
    ] = None,
    yes: Yes = False,
    url: ConsoleUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Reveal the JWT of an instance's team, once. It is YAML as the team's secrets file needs it."""
    from pallas_cli.workspaces.jwts import reveal, reveal_to_file

    if into is not None:
        run_at_console(url, data, partial(reveal_to_file, given=instance, path=into, as_json=as_json))
        return
    confirm(f"the JWT of instance {instance} is printed, once", yes=yes, as_json=as_json)
    run_at_console(url, data, partial(reveal, given=instance, as_json=as_json))


@app.command()
def provision_teams(url: ConsoleUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Provision the teams of all instances. New JWTs are printed once. Exit code 1 if one cannot be provisioned."""
    from pallas_cli.workspaces.jwts import provision_teams

    run_at_console(url, data, partial(provision_teams, as_json=as_json))


def _token(path: Path | None) -> str | None:
    from pallas_cli.refused import WrongUsage

    if path is None:
        return None
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
