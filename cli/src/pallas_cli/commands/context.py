"""`pallas context`: which platform commands talk to, if options and environment do not say it."""

import os
from collections.abc import Iterator
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data
from pallas_cli.command import Made, Paged, command
from pallas_cli.completing import complete_context
from pallas_cli.contexts import ADDRESSES, FILES, Contexts, active, check_name, choose, kept_in, setting
from pallas_cli.kept_addresses import source_of
from pallas_cli.options import option, parameter
from pallas_cli.plain_text import print_answer, print_list, print_plain
from pallas_cli.refused import Refused, WrongUsage

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.", autocompletion=complete_context)]


def _add(name: str, *, replace: bool, use_it: bool, as_json: bool, **given: str | Path | None) -> None:
    """Add a context. Secrets stay in their files: the context has the paths only."""
    settings = {key: _checked(key, value) for key, value in given.items() if value is not None}
    if not settings:
        raise WrongUsage("a context without settings has no use: pass --data, or addresses such as --gateway")
    contexts = Contexts.read()
    if check_name(name) in contexts.named and not replace:
        raise Refused(f"there is a context {name!r}: pass --replace, or choose another name", word="exists")
    contexts.named[name] = settings
    contexts.current = name if use_it else contexts.current
    contexts.write()
    hint = "" if contexts.current == name else f" `pallas context use {name}` uses it."
    _say(contexts, name, f"Added context {name}.{hint}", as_json=as_json)


def _option(name: str, about: str, kind: Any, metavar: str) -> Parameter:
    return option(name, about, kind, f"--{name.replace('_', '-')}", metavar=metavar)


_add.__dict__["__signature__"] = Signature(
    [
        parameter("name", Name, Parameter.empty),
        _option("data", "Data folder of a `pallas up` on this machine.", Path | None, "DIR"),
        *(_option(part, f"Address of {what}.", str | None, "URL") for part, what in ADDRESSES.items()),
        *(_option(name, f"File with {each.about}.", Path | None, "FILE") for name, each in FILES.items()),
        option("replace", "Replace a context of this name.", bool, "--replace", default=False),
        option("use_it", "Use it from now on.", bool, "--use", default=False),
        parameter("as_json", AsJson, default=False),
    ]
)
app.command("add")(_add)


_SCHEMES = {"nats": ("nats", "tls", "ws", "wss")}


@command(app)
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
    contexts = Contexts.read()
    if name is not None:
        contexts.of(name)
    contexts.current = name
    contexts.write()
    _say(contexts, name, f"Commands use context {name}." if name else "Commands use no context.", as_json=as_json)


def _say(contexts: Contexts, name: str | None, sentence: str, *, as_json: bool) -> None:
    settings = contexts.named.get(name) if name else None
    print_answer({"context": name, "current": contexts.current, "settings": settings}, sentence, as_json=as_json)


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


type Row = dict[str, str | None]


@command(app, "list")
def list_contexts(page: Paged, as_json: AsJson = False) -> None:
    """List contexts. The one in use has a star."""
    contexts = Contexts.read()
    names = page.cut(sorted(contexts.named), str)
    rows = [{"context": name, "current": name == contexts.current, **contexts.named[name]} for name in names]
    nothing = "There are no contexts; `pallas context add` makes one."
    cells = (_cells(contexts, name) for name in names)
    print_list(rows, ("", "context", "platform"), cells, nothing=nothing, as_json=as_json)


def _cells(contexts: Contexts, name: str) -> list[str]:
    settings = contexts.named[name]
    first = settings.get("gateway") or settings.get("data") or next(iter(settings.values()))
    return ["*" if name == contexts.current else "", name, first]


@command(app)
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
    found = active()
    used = found[0] if found else None
    rows = [*_addresses(data), *_secrets(data)]
    if not as_json:
        print_plain(f"context: {used or 'none'}")
    cells = [[each or "-" for each in row.values()] for row in rows]
    print_list({"context": used, "settings": rows}, ("setting", "value", "from"), cells, as_json=as_json)


def known(name: Name) -> str:
    """The name of a context that exists."""
    Contexts.read().of(name)
    return name


@command(app, sure="context {name} is deleted")
def delete(name: Annotated[str, Made(known)], *, as_json: bool) -> None:
    """Delete a context. The files that it names stay."""
    contexts = Contexts.read()
    del contexts.named[name]
    contexts.current = None if contexts.current == name else contexts.current
    contexts.write()
    _say(contexts, name, f"Deleted context {name}.", as_json=as_json)


def _addresses(data: Path) -> Iterator[Row]:
    for part in ADDRESSES:
        variable = f"PALLAS_{part.upper()}_URL"
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
    for of_context, (_, variable, secret, kept) in FILES.items():
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
