"""The ready file: where everything is, for programs that drive a stack.

It appears when everything answers and is replaced as a whole whenever a process has been replaced, so a reader never
sees half of it. It may hold an external server's credentials and is therefore readable by its owner only.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a stack, without trailing slashes; None for what does not run."""

    registry: str
    gateway: str
    gateways: Sequence[str]
    nats: str
    nats_seed_file: str | None
    redis: str | None
    postgres: str | None
    team_lifecycle: str | None
    library_search: str | None
    data: str
    log: str


def write(path: Path, addresses: Addresses, pids: Mapping[str, Sequence[int]]) -> None:
    """Write the file, replacing the one that is there in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({**asdict(addresses), "pids": pids}, indent=2) + "\n"
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)
    os.replace(fresh, path)


def remove(path: Path) -> None:
    """Take the file away: what it describes does not run (any more)."""
    path.unlink(missing_ok=True)
