"""Addresses of a stack, in its data folder. `pallas up` writes them, and commands with `--data` use them.

They stay after the stack has stopped: otherwise a command would send this stack's credentials to another one, at the
default address.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pallas_cli.contexts import active
from pallas_cli.parts import DEFAULTS, Part
from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused, WrongUsage

_NAME = "addresses.json"
NO_PART = "no_part"
"""The word of the error when a stack has no such part."""


def help_of(what: str, part: Part) -> str:
    """The help of an option for the address of `part`, which `what` describes."""
    return f"{what} [default: that of the context or of the stack in the data folder, else {DEFAULTS[part]}]"


def keep_addresses(data: Path, addresses: Mapping[Part, str | None]) -> None:
    """Write or replace the addresses. None: the stack has no such part."""
    write_atomically(data / _NAME, json.dumps(addresses, indent=2) + "\n")


def find_address(given: str | None, data: Path, part: Part) -> str:
    """The address of `part`: the one of an option or variable, of the context, of the stack in `data`, or the default.

    Raises:
        Refused: the stack in `data` has no such part, or its file of addresses cannot be read.
        WrongUsage: the context names another platform, without this part.
    """
    return source_of(given, data, part)[0]


def source_of(given: str | None, data: Path, part: Part) -> tuple[str, str]:
    """The address of `part` and where it comes from, as for `find_address`."""
    if given:
        return given, "option or environment"
    context = active()
    if context is not None:
        name, settings = context
        if address := settings.get(part):
            return address, f"context {name}"
        if "data" not in settings:
            words = part.replace("_", "-")
            raise WrongUsage(f"the context {name!r} has no address of {words}: set it with --{words} of `context add`")
    return _kept(data, part)


def _kept(data: Path, part: Part) -> tuple[str, str]:
    path = data / _NAME
    try:
        kept = json.loads(path.read_text("utf-8"))
        address = kept.get(part, DEFAULTS[part])
    except FileNotFoundError:
        return DEFAULTS[part], "default"
    except (OSError, ValueError, AttributeError) as error:
        raise Refused(f"the addresses in {path} cannot be read: {type(error).__name__}") from error
    if address is None:
        raise Refused(
            f"the stack in {data} has no {part.replace('_', '-')}: it was started with --no-auth", word=NO_PART
        )
    return address, f"data folder {data}"
