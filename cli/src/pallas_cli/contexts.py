"""Contexts: named sets of addresses and of files with secrets, of the platforms that a person works with.

The file has no secrets itself. What a command uses comes from its options, else from the environment, else from the
context, else from the data folder of `pallas up`. With `--data` the context is left out: that folder is a whole stack.
"""

import json
import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pallas_cli.parts import Part
from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused, WrongUsage

ADDRESSES: Mapping[Part, str] = {
    "gateway": "the gateway",
    "nats": "the NATS servers",
    "registry": "the registry",
    "team_lifecycle": "team-lifecycle",
    "library_search": "library-search",
    "pipelines": "the pipelines service",
    "data_pool": "the data-pool",
    "workspaces": "the console",
}
"""The address of Postgres has a password, so it is in a file."""


class Secret(NamedTuple):
    """A secret: what it is, its variable, its name in lists, and its file below `secrets` of a data folder."""

    about: str
    variable: str
    name: str
    kept: str | None = None


FILES: Mapping[str, Secret] = {
    "token_file": Secret("your bearer token", "PALLAS_TOKEN", "token"),
    "admin_password_file": Secret(
        "the password of the account `admin`", "PALLAS_ADMIN_PASSWORD", "admin password", "admin-password"
    ),
    "nats_seed_file": Secret("your seed at the broker", "PALLAS_NATS_SEED", "nats seed", "nats/cli.seed"),
    "nats_system_seed_file": Secret(
        "the seed of the broker's system account", "PALLAS_NATS_SYSTEM_SEED", "nats system seed", "nats/system.seed"
    ),
    "nats_ca_file": Secret("the certificate of the authority that the broker's is from", "PALLAS_NATS_CA", "nats ca"),
    "postgres_url_file": Secret("the address of the Postgres server, for backups", "PALLAS_POSTGRES_URL", "postgres"),
    "log_key_file": Secret("the platform's log key", "PALLAS_LOG_KEY", "log key", "log-key"),
}
"""The files of secrets that a context may name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_chosen = ContextVar[str | None]("chosen", default=None)
_left_out = ContextVar[bool]("left_out", default=False)


@dataclass(slots=True)
class Contexts:
    """All contexts by name, and the one that is used."""

    current: str | None = None
    named: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    @classmethod
    def read(cls) -> "Contexts":
        """Read the file; without one there are no contexts.

        Raises:
            Refused: the file cannot be read.
        """
        path = contexts_file()
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
            return cls(found.get("current"), {name: dict(each) for name, each in found["contexts"].items()})
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"the contexts in {path} cannot be read: {type(error).__name__}") from error

    def write(self) -> None:
        """Write the file, for its owner only."""
        write_atomically(
            contexts_file(), json.dumps({"current": self.current, "contexts": self.named}, indent=2) + "\n"
        )

    def of(self, name: str) -> dict[str, str]:
        """The settings of a context.

        Raises:
            Refused: there is none of this name.
        """
        if name not in self.named:
            known = (
                f"; there are: {', '.join(sorted(self.named))}" if self.named else "; `pallas context add` makes one"
            )
            raise Refused(f"there is no context {name!r}{known}", word="not_found")
        return self.named[name]


def contexts_file() -> Path:
    """The file of contexts in the folder for configuration."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "pallas" / "contexts.json"


def check_name(name: str) -> str:
    """The name of a context.

    Raises:
        WrongUsage: it is not valid.
    """
    if not _NAME.fullmatch(name):
        raise WrongUsage(f"{name!r} is not a valid name: use up to 64 letters, digits and ._-")
    return name


def choose(name: str | None) -> None:
    """Use this context in this run instead of the current one."""
    _chosen.set(name)
    _left_out.set(False)


def leave_out() -> None:
    """Use no context in this run."""
    _left_out.set(True)


def active() -> tuple[str, Mapping[str, str]] | None:
    """Name and settings of the context of this run; None if there is none.

    Raises:
        Refused: it does not exist, or the file cannot be read.
    """
    if _left_out.get():
        return None
    contexts = Contexts.read()
    name = _chosen.get() or contexts.current
    return (name, contexts.of(name)) if name is not None else None


def kept_in(data: Path, name: str) -> Path | None:
    """The path of a secret in the data folder; None if the context is another platform than that of the folder."""
    found = active()
    return None if found is not None and "data" not in found[1] else data / "secrets" / name


def setting(name: str) -> str | None:
    """One setting of the context of this run; None if it has none."""
    found = active()
    return found[1].get(name) if found is not None else None
