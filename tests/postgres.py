"""A real Postgres as a child process, for tests that need one to stop, hang, die and come back."""

import asyncio
import atexit
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Self

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from tests.embedded import Server, free_port

from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.processes.child import Launch, child_setup

_STARTS_WITHIN = 60.0
_RETRY = 0.02
_PASSWORD = "a-password"
_LEFT_BEHIND = b"pre-existing shared memory block"


def for_asyncpg(url: str) -> str:
    """A URL of libpq as SQLAlchemy hands it to asyncpg."""
    return url.replace("postgresql:", "postgresql+asyncpg:").replace("sslmode=", "ssl=")


@cache
def _new_cluster() -> Path:
    """A cluster that never ran, made once in each process: to copy it takes a tenth of the time."""
    folder = Path(tempfile.mkdtemp(prefix="pallas-postgres-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = EmbeddedPostgres(folder, _PASSWORD, free_port())
    asyncio.run(server.launch())
    return server.cluster


class PostgresServer(Server):
    """One Postgres on loopback that keeps its port and its data over `restart`. Use it as a context manager."""

    _polite = signal.SIGINT

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder, _PASSWORD, free_port())
        self._log = folder / "postgres.log"

    @property
    def url(self) -> str:
        """The URL of the database for administration, as superuser."""
        return self.database("postgres")

    def database(self, name: str) -> str:
        """The URL of a database, as superuser.

        It says that the server has no TLS. Otherwise asyncpg asks for it, and when a test ends a service meanwhile,
        nobody retrieves the error of that question, which fails the test.
        """
        return f"{self._server.url.rpartition('/')[0]}/{name}?sslmode=disable"

    def start(self) -> Self:
        """Start the server, after making its cluster if there is none, and wait until it is ready.

        What a killed one leaves behind goes by itself, and the next one does not begin before that.
        """
        if not self._server.cluster.exists():
            shutil.copytree(_new_cluster(), self._server.cluster)
        launch = asyncio.run(self._server.launch())
        deadline = time.monotonic() + _STARTS_WITHIN
        while time.monotonic() < deadline:
            begin = self._log.stat().st_size if self._log.exists() else 0
            process = self._run(launch)
            while process.poll() is None and time.monotonic() < deadline:
                if asyncio.run(self._is_ready()):
                    return self
                time.sleep(_RETRY)
            if _LEFT_BEHIND not in self._log.read_bytes()[begin:]:
                break
        self.kill9()
        raise RuntimeError(f"Postgres did not start:\n{self._log.read_text('utf-8', errors='replace')}")

    def _run(self, launch: Launch) -> subprocess.Popen[bytes]:
        command = (*launch.command, "-c", "fsync=off", "-c", "autovacuum=off")
        return self.run(self._log, *command, setup=child_setup(launch.orphan_signal, launch.rootless))

    async def _is_ready(self) -> bool:
        launch = await self._server.launch()
        return await launch.ready()

    async def new_database(self, like: str = "template1") -> str:
        """Create a copy of the database `like` and return its URL. There must be no connection to `like`."""
        name = f"d{uuid.uuid4().hex[:16]}"
        await self.say(f"create database {name} template {like}")
        return self.database(name)

    async def empty(self, database: str, *tables: str) -> None:
        """Delete all rows of these tables, in this order."""
        deletes = " ".join(f"delete from {table};" for table in tables)
        await self.say(f"do $$ begin {deletes} end $$", database)

    async def say(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement outside of any transaction, and return its rows."""
        engine = create_async_engine(for_asyncpg(database or self.url))
        try:
            async with engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                answer = await connection.execute(text(statement))
                return [tuple(row) for row in answer] if answer.returns_rows else []
        finally:
            await engine.dispose()

    def __exit__(self, *_: object) -> None:
        # The data is not needed any more, so it ends without a checkpoint.
        self.end(signal.SIGQUIT)
