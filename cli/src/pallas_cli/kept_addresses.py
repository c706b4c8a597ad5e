"""Addresses of a stack, in its data folder. `pallas up` writes them, and commands with `--data` use them.

They stay after the stack has stopped: otherwise a command would send this stack's credentials to another one, at the
default address.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused

type Part = Literal[
    "nats", "registry", "gateway", "team_lifecycle", "library_search", "pipelines", "data_pool", "workspaces"
]

DEFAULTS: Mapping[Part, str] = {
    "nats": "nats://127.0.0.1:23060",
    "registry": "http://127.0.0.1:23030",
    "gateway": "http://127.0.0.1:23050",
    "team_lifecycle": "http://127.0.0.1:23066",
    "library_search": "http://127.0.0.1:23067",
    "pipelines": "http://127.0.0.1:23068",
    "data_pool": "http://127.0.0.1:23069",
    "workspaces": "http://127.0.0.1:23072",
}
_NAME = "addresses.json"


def help_of(what: str, part: Part) -> str:
    """The help of an option for the address of `part`, which `what` describes."""
    return f"{what} [default: that of the stack in the data folder, else {DEFAULTS[part]}]"


def keep_addresses(data: Path, addresses: Mapping[Part, str | None]) -> None:
    """Write or replace the addresses. None: the stack has no such part."""
    write_atomically(data / _NAME, json.dumps(addresses, indent=2) + "\n")


def find_address(given: str | None, data: Path, part: Part) -> str:
    """The address of `part`: the one of an option or variable, or of the stack in `data`, or else the default.

    Raises:
        Refused: the stack in `data` has no such part, or its file of addresses cannot be read.
    """
    if given:
        return given
    path = data / _NAME
    try:
        kept = json.loads(path.read_text("utf-8"))
        address = kept.get(part, DEFAULTS[part])
    except FileNotFoundError:
        return DEFAULTS[part]
    except (OSError, ValueError, AttributeError) as error:
        raise Refused(f"the addresses in {path} cannot be read: {type(error).__name__}") from error
    if address is None:
        raise Refused(f"the stack in {data} has no {part.replace('_', '-')}: it was started with --no-auth")
    return address
