"""`pallas context`: which platform commands talk to, if options and environment do not say it."""

from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.completing import complete_context
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page

app = typer.Typer(no_args_is_help=True, help="Contexts: the platforms that you work with, by name.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.", autocompletion=complete_context)]


def _url(what: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="URL", help=f"Address of {what}.")


def _file(what: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="FILE", help=f"File with {what}.")


@app.command()
def add(
    name: Name,
    data_folder: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data folder of a `pallas up` on this machine.")
    ] = None,
    gateway: Annotated[str | None, _url("the gateway")] = None,
    nats: Annotated[str | None, _url("the NATS servers")] = None,
    registry: Annotated[str | None, _url("the registry")] = None,
    team_lifecycle: Annotated[str | None, _url("team-lifecycle")] = None,
    library_search: Annotated[str | None, _url("library-search")] = None,
    pipelines: Annotated[str | None, _url("the pipelines service")] = None,
    data_pool: Annotated[str | None, _url("the data-pool")] = None,
    workspaces: Annotated[str | None, _url("the console")] = None,
    token_file: Annotated[Path | None, _file("your bearer token")] = None,
    admin_password_file: Annotated[Path | None, _file("the password of the account `admin`")] = None,
    nats_seed_file: Annotated[Path | None, _file("your seed at the broker")] = None,
    nats_system_seed_file: Annotated[Path | None, _file("the seed of the broker's system account")] = None,
    nats_ca_file: Annotated[Path | None, _file("the certificate of the authority that the broker's is from")] = None,
    postgres_url_file: Annotated[Path | None, _file("the address of the Postgres server, for backups")] = None,
    log_key_file: Annotated[Path | None, _file("the platform's log key")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a context of this name.")] = False,
    use_it: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a context. Secrets stay in their files: the context has the paths only."""
    from pallas_cli.context.change import add_context

    given = {
        "data": data_folder,
        "gateway": gateway,
        "nats": nats,
        "registry": registry,
        "team_lifecycle": team_lifecycle,
        "library_search": library_search,
        "pipelines": pipelines,
        "data_pool": data_pool,
        "workspaces": workspaces,
        "token_file": token_file,
        "admin_password_file": admin_password_file,
        "nats_seed_file": nats_seed_file,
        "nats_system_seed_file": nats_system_seed_file,
        "nats_ca_file": nats_ca_file,
        "postgres_url_file": postgres_url_file,
        "log_key_file": log_key_file,
    }
    add_context(name, given, replace=replace, use=use_it, as_json=as_json)


@app.command()
def use(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the context.", autocompletion=complete_context)
    ] = None,
    none: Annotated[
        bool, typer.Option("--none", help="Use no context: the data folder of `pallas up` decides.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Use a context from now on, in every command that says nothing else."""
    from pallas_cli.context.change import use_context
    from pallas_cli.refused import WrongUsage

    if none == (name is not None):
        raise WrongUsage("name a context, or pass --none")
    use_context(name, as_json=as_json)


@app.command("list")
def list_contexts(limit: Limit = None, after: After = None, as_json: AsJson = False) -> None:
    """List contexts. The one in use has a star."""
    from pallas_cli.context.show import list_contexts

    list_contexts(Page(limit, after), as_json=as_json)


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the context. [default: what is used]")
    ] = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show what commands would use here, and where it comes from. Secrets are not printed."""
    from pallas_cli.context.show import show_context
    from pallas_cli.contexts import choose, setting

    if name is not None:
        choose(name)
        data = Path(setting("data") or data)
    show_context(data, as_json=as_json)


@app.command()
def delete(name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a context. The files that it names stay."""
    from pallas_cli.context.change import delete_context
    from pallas_cli.contexts import Contexts

    Contexts.read().of(name)
    confirm(f"context {name} is deleted", yes=yes, as_json=as_json)
    delete_context(name, as_json=as_json)
