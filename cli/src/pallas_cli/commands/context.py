"""`pallas context`: which platform commands talk to, if options and environment do not say it."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.completing import complete_context
from pallas_cli.confirming import Yes, confirm
from pallas_cli.contexts import ADDRESSES, Contexts, active, check_name, choose, kept_in, setting
from pallas_cli.kept_addresses import source_of
from pallas_cli.paging import After, Limit, Page
from pallas_cli.plain_text import print_plain, print_table
from pallas_cli.refused import Refused, WrongUsage

app = typer.Typer()

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
    keep_key_file: Annotated[Path | None, _file("the key that opens what failed turns were asked")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a context of this name.")] = False,
    use_it: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a context. Secrets stay in their files: the context has the paths only."""
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
        "keep_key_file": keep_key_file,
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
    if none == (name is not None):
        raise WrongUsage("name a context, or pass --none")
    use_context(name, as_json=as_json)


@app.command("list")
def list_contexts(limit: Limit = None, after: After = None, as_json: AsJson = False) -> None:
    """List contexts. The one in use has a star."""
    show_contexts(Page(limit, after), as_json=as_json)


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the context. [default: what is used]")
    ] = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show what commands would use here, and where it comes from. Secrets are not printed."""
    if name is not None:
        choose(name)
        data = Path(setting("data") or data)
    show_context(data, as_json=as_json)


@app.command()
def delete(name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a context. The files that it names stay."""
    Contexts.read().of(name)
    confirm(f"context {name} is deleted", yes=yes, as_json=as_json)
    delete_context(name, as_json=as_json)


_SCHEMES = {"nats": ("nats", "tls", "ws", "wss")}


def add_context(name: str, given: Mapping[str, str | Path | None], *, replace: bool, use: bool, as_json: bool) -> None:
    """Add a context with these settings. Paths become absolute.

    Raises:
        WrongUsage: the name or a setting is not valid, or there are no settings.
        Refused: there is one of this name, and `replace` is false.
    """
    settings = {key: _checked(key, value) for key, value in given.items() if value is not None}
    if not settings:
        raise WrongUsage("a context without settings has no use: pass --data, or addresses such as --gateway")
    contexts = Contexts.read()
    if check_name(name) in contexts.named and not replace:
        raise Refused(f"there is a context {name!r}: pass --replace, or choose another name", word="exists")
    contexts.named[name] = settings
    contexts.current = name if use else contexts.current
    contexts.write()
    hint = "" if contexts.current == name else f" `pallas context use {name}` uses it."
    _say(contexts, name, f"Added context {name}.{hint}", as_json=as_json)


def use_context(name: str | None, *, as_json: bool) -> None:
    """Make a context the current one; None: no context.

    Raises:
        Refused: there is none of this name.
    """
    contexts = Contexts.read()
    if name is not None:
        contexts.of(name)
    contexts.current = name
    contexts.write()
    _say(contexts, name, f"Commands use context {name}." if name else "Commands use no context.", as_json=as_json)


def delete_context(name: str, *, as_json: bool) -> None:
    """Delete a context. If it is the current one, there is none afterwards.

    Raises:
        Refused: there is none of this name.
    """
    contexts = Contexts.read()
    contexts.of(name)
    del contexts.named[name]
    contexts.current = None if contexts.current == name else contexts.current
    contexts.write()
    _say(contexts, name, f"Deleted context {name}.", as_json=as_json)


def _say(contexts: Contexts, name: str | None, sentence: str, *, as_json: bool) -> None:
    if as_json:
        settings = contexts.named.get(name) if name else None
        print(json.dumps({"context": name, "current": contexts.current, "settings": settings}, indent=2))
    else:
        print_plain(sentence)


def _checked(key: str, value: str | Path) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    if key in ADDRESSES:
        for url in value.split(","):
            parts = urlsplit(url.strip())
            if parts.scheme not in _SCHEMES.get(key, ("http", "https")) or not parts.hostname:
                raise WrongUsage(f"--{key.replace('_', '-')}: {url!r} is not an address such as {_example(key)}")
            if parts.password is not None:
                raise WrongUsage(f"--{key.replace('_', '-')}: a password has no place in a context: name a file")
    return value


def _example(key: str) -> str:
    return "tls://nats.example.com:4222" if key == "nats" else "https://pallas.example.com"


_VARIABLES = {part: f"PALLAS_{part.upper()}_URL" for part in ADDRESSES}
_SECRETS = {
    "token": ("PALLAS_TOKEN", "token_file", None),
    "admin password": ("PALLAS_ADMIN_PASSWORD", "admin_password_file", "admin-password"),
    "nats seed": ("PALLAS_NATS_SEED", "nats_seed_file", "nats/cli.seed"),
    "nats system seed": ("PALLAS_NATS_SYSTEM_SEED", "nats_system_seed_file", "nats/system.seed"),
    "nats ca": ("PALLAS_NATS_CA", "nats_ca_file", None),
    "log key": ("PALLAS_LOG_KEY", "log_key_file", "log-key"),
    "keep key": ("PALLAS_KEEP_KEY", "keep_key_file", "keep-key"),
    "postgres": ("PALLAS_POSTGRES_URL", "postgres_url_file", None),
}
"""Of each secret: its variable, its setting in a context, and its file below `secrets` of a data folder."""

type Row = dict[str, str | None]


def show_contexts(page: Page, *, as_json: bool) -> None:
    """Print a page of contexts, by name."""
    contexts = Contexts.read()
    names = page.cut(sorted(contexts.named), str)
    if as_json:
        rows = [{"context": name, "current": name == contexts.current, **contexts.named[name]} for name in names]
        print(json.dumps(rows, indent=2))
    elif not contexts.named:
        print_plain("There are no contexts; `pallas context add` makes one.")
    else:
        print_table(("", "context", "platform"), (_cells(contexts, name) for name in names))


def _cells(contexts: Contexts, name: str) -> list[str]:
    settings = contexts.named[name]
    first = settings.get("gateway") or settings.get("data") or next(iter(settings.values()))
    return ["*" if name == contexts.current else "", name, first]


def show_context(data: Path, *, as_json: bool) -> None:
    """Print what commands with the data folder `data` would use."""
    found = active()
    name = found[0] if found else None
    rows = [*_addresses(data), *_secrets(data)]
    if as_json:
        print(json.dumps({"context": name, "settings": rows}, indent=2))
        return
    print_plain(f"context: {name or 'none'}")
    print_table(("setting", "value", "from"), [[each or "-" for each in row.values()] for row in rows])


def _addresses(data: Path) -> Iterator[Row]:
    for part in ADDRESSES:
        variable = _VARIABLES[part]
        if given := os.environ.get(variable):
            yield {"setting": part, "value": given, "source": f"environment {variable}"}
            continue
        try:
            value, source = source_of(None, data, part)
        except Refused as refusal:
            yield {"setting": part, "value": None, "source": str(refusal)}
        else:
            yield {"setting": part, "value": value, "source": source}


def _secrets(data: Path) -> Iterator[Row]:
    """The places of secrets, never their values."""
    for secret, (variable, of_context, kept) in _SECRETS.items():
        path = kept_in(data, kept) if kept else None
        if given := next((name for name in (variable, f"{variable}_FILE") if os.environ.get(name)), None):
            yield {"setting": secret, "value": "set", "source": f"environment {given}"}
        elif named := setting(of_context):
            there = named if Path(named).is_file() else f"{named} (missing)"
            yield {"setting": secret, "value": there, "source": f"context {_name()}"}
        elif path is not None and path.is_file():
            yield {"setting": secret, "value": str(path), "source": f"data folder {data}"}
        else:
            yield {"setting": secret, "value": None, "source": None}


def _name() -> str:
    found = active()
    return found[0] if found else "none"
