"""The ready file: addresses and process ids of a stack, for programs that control it.

It is written when the stack is ready, and replaced atomically after a restart of a process. It has the servers'
credentials, so only its owner can read it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pallas_cli.private_files import write_atomically


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a stack, without trailing slashes; None if a server is not used."""

    registry: str
    gateway: str
    gateways: Sequence[str]
    nats: str
    nats_seed_file: str | None
    redis: str | None
    postgres: str | None
    team_lifecycle: str | None
    library_search: str | None
    pipelines: str
    data_pool: str
    coder: str
    fleet: str
    workspaces: str | None
    data: str
    log: str


def write(path: Path, addresses: Addresses, pids: Mapping[str, Sequence[int]]) -> None:
    """Write or replace the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({**asdict(addresses), "pids": pids}, indent=2) + "\n"
    write_atomically(path, content)


def remove(path: Path) -> None:
    """Delete the file, because the stack does not run."""
    path.unlink(missing_ok=True)
