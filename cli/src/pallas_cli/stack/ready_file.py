"""The ready file: where everything is, for programs that drive a stack.

It appears when everything answers and is replaced as a whole whenever a process has been replaced, so a reader never
sees half of it. It holds the servers' credentials and is therefore readable by its owner only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pallas_cli.private_files import write_atomically


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
    write_atomically(path, content)


def remove(path: Path) -> None:
    """Take the file away: what it describes does not run (any more)."""
    path.unlink(missing_ok=True)
