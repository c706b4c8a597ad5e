"""The console's service as a process of its own. Its agents, its Mnemosyne and its browser are on this side."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.bench.processes import Process, running
from tests.embedded import free_port
from tests.integration.real_parts import until
from tests.integration.workspaces.lab import client_of, environment, log_in
from tests.postgres import PostgresServer

from pallas_postgres.engine import open_engine

_TOLD_WITHIN = 300.0


@dataclass
class Service:
    """A running service. `http` is logged in as a browser is; `engine` is for its database."""

    process: Process
    http: httpx.AsyncClient
    engine: AsyncEngine
    _folder: Path
    _settings: dict[str, str]
    _processes: ExitStack

    @property
    def base(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.process.port}"

    async def start_again(self) -> Process:
        """Start it on the same port, after it was killed."""
        started = running("workspaces", self._folder, "workspaces", env=self._settings, port=self.process.port)
        self.process = self._processes.enter_context(started)
        return self.process


@asynccontextmanager
async def a_service(folder: Path, postgres: PostgresServer, **settings: str) -> AsyncGenerator[Service]:
    """Start the service with a database of its own. `settings` are its variables without their prefix."""
    database = await postgres.new_database()
    given = environment(postgres_url=database, port="{port}", **settings)
    engine = open_engine(database, pool=2, service="bench")
    processes = ExitStack()
    try:
        process = processes.enter_context(running("workspaces", folder, "workspaces", env=given, port=free_port()))
        await asyncio.to_thread(process.wait_for, "readyz")
        async with client_of(f"http://127.0.0.1:{process.port}") as http:
            (await log_in(http)).raise_for_status()
            yield Service(process, http, engine, folder, given, processes)
    finally:
        await engine.dispose()
        await asyncio.to_thread(processes.close)


async def until_told(service: Service) -> None:
    """Wait until Mnemosyne was told all."""
    async with service.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")

        async def none_is() -> bool:
            waiting = "select exists (select from mnemosyne_teams where due_at is not null or claim is not null)"
            return not await connection.scalar(text(waiting))

        await until(none_is, _TOLD_WITHIN)
