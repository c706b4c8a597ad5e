"""Adds and deletes contexts, and chooses the current one."""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pallas_cli.contexts import ADDRESSES, Contexts, check_name
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage

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
