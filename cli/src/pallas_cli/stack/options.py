"""The options of a stack from the command line and the environment. Nothing is looked up here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.stack.ports import DEFAULT_BASE


@dataclass(frozen=True, slots=True)
class StackOptions:
    """How to run a stack. Without `teams` it hosts the demo team. Without `auth` the auth services are not started.
    `servers` are started besides NATS ("redis", "postgres"). Times are in seconds."""

    data: Path
    teams: tuple[Path, ...] = ()
    workers: int = 1
    gateways: int = 1
    slots: int | None = None
    port_base: int = DEFAULT_BASE
    auth: bool = True
    servers: frozenset[str] = frozenset()
    ready_file: Path | None = None
    turn: bool | None = None
    stay: bool = True
    drain_seconds: float = 5.0
    start_timeout: float = 90.0


@dataclass(frozen=True, slots=True)
class External:
    """Addresses of servers that run elsewhere. A server with an address is not started."""

    nats: str | None = None
    redis: str | None = None
    postgres: str | None = None
    coder: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "External":
        """Read `PALLAS_NATS_URL`, `PALLAS_REDIS_URL`, `PALLAS_POSTGRES_URL` and `PALLAS_CODER_URL`; empty: not set."""
        return cls(
            nats=environ.get("PALLAS_NATS_URL") or None,
            redis=environ.get("PALLAS_REDIS_URL") or None,
            postgres=environ.get("PALLAS_POSTGRES_URL") or None,
            coder=environ.get("PALLAS_CODER_URL") or None,
        )
