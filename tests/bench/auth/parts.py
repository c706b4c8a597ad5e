"""The services of authorisation, each a process of its own, over a broker, Redis and Postgres of this run."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import stack
from tests.bench.processes import Measured, Process, running
from tests.embedded import RedisServer
from tests.integration.team_lifecycle.lab import environment
from tests.postgres import PostgresServer

_MODULES = {"team-lifecycle": "team_lifecycle", "auth-resolver": "auth_resolver", "library-search": "library_search"}


@dataclass(frozen=True)
class Parts:
    """What runs. `environ` has the variables of the auth services."""

    folder: Path
    nats_url: str
    nats: Measured
    redis: RedisServer
    postgres: PostgresServer
    environ: dict[str, str]
    lifecycle: Process

    @contextmanager
    def running(self, service: str, **more: str) -> Generator[Process]:
        """Another service beside them. `more` are variables without their prefix."""
        environ = self.environ | {f"PALLAS_{name.upper()}": value for name, value in more.items()}
        with running(service, self.folder, _MODULES[service], env=environ) as process:
            yield process.wait_for("readyz")

    @contextmanager
    def unprotected(self) -> Generator[Process]:
        """Another team-lifecycle over the same database, whose cache is unprotected."""
        module = "tests.integration.stale.service"
        with running("unprotected", self.folder, module, "team-lifecycle", env=self.environ) as process:
            yield process.wait_for("readyz")


@contextmanager
def parts(folder: Path) -> Generator[Parts]:
    """Start the servers and a team-lifecycle."""
    with ExitStack() as opened:
        nats_url, nats = opened.enter_context(stack.broker())
        redis = opened.enter_context(RedisServer(folder / "redis"))
        postgres = opened.enter_context(PostgresServer(folder / "postgres"))
        environ = environment(nats_url=nats_url, redis_url=redis.url, postgres_url=postgres.url, port="{port}")
        lifecycle = opened.enter_context(
            running("team-lifecycle", folder, _MODULES["team-lifecycle"], env=environ | {"PALLAS_LOG_LEVEL": "WARNING"})
        )
        yield Parts(folder, nats_url, nats, redis, postgres, environ, lifecycle.wait_for("readyz"))
