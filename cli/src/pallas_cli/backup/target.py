"""The installation that is saved or restored: a broker and the databases, by addresses or by a data folder."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pallas_bus.access import Access
from pallas_cli.broker import access_to
from pallas_cli.broker_config.users import Seeds
from pallas_cli.contexts import kept_in, setting
from pallas_cli.embedded.postgres import EmbeddedPostgres, database_url, ensure_database
from pallas_cli.embedded.servers import EmbeddedNats
from pallas_cli.kept_addresses import NO_PART, find_address
from pallas_cli.processes.child import Launch, start
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.stack.data import SECRETS, broker_key, kept_secret, locked
from pallas_cli.stack.ports import free_port
from pallas_contracts.catalog import DATABASES, RESTORE
from pallas_contracts.errors import Rejected
from pallas_runtime.settings import value_of

_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Installation:
    """How its broker is reached, and its databases by name. `urls` have passwords."""

    access: Access
    urls: Mapping[str, str] = field(repr=False)


def running(nats: str | None, postgres: str | None, data: Path, *, user: str, without: bool) -> Installation:
    """An installation that runs, at these addresses or at those of the stack in `data`. `without`: no databases.

    Raises:
        Refused: addresses or credentials are missing.
    """
    access = access_to(find_address(nats, data, "nats"), data, user)
    return Installation(access, {} if without else find_databases(postgres, nats, data))


def find_databases(postgres: str | None, nats: str | None, data: Path) -> dict[str, str]:
    """The addresses of the databases by name.

    They come from a variable for each service, from the address of a server, from the file that the context names, or
    from the stack in `data`, in this order. Empty: that stack has no databases.

    Raises:
        Refused: there is nothing of all this, or a variable is invalid.
    """
    own = {name: url for service, name in DATABASES.items() if (url := _of_service(service))}
    if own:
        return own
    if postgres:
        return {name: database_url(postgres, name) for name in DATABASES.values()}
    if named := setting("postgres_url_file"):
        return {name: database_url(_text_of(Path(named)), name) for name in DATABASES.values()}
    if nats or kept_in(data, "") is None:
        raise WrongUsage(
            "no addresses of databases: set PALLAS_POSTGRES_URL, or PALLAS_TEAM_LIFECYCLE_POSTGRES_URL and so on, "
            "or leave them out with --no-databases"
        )
    try:
        server = find_address(None, data, "postgres")
    except Refused as refusal:
        if refusal.word == NO_PART:
            return {}
        raise
    return {name: _of_stack(server, service, data) for service, name in DATABASES.items()}


def _of_service(service: str) -> str:
    variable = f"PALLAS_{service.replace('-', '_').upper()}_POSTGRES_URL"
    try:
        return value_of(os.environ, variable)
    except Rejected as error:
        raise WrongUsage(f"{variable}: {error.message}") from error


def _of_stack(server: str, service: str, data: Path) -> str:
    password = _text_of(data / SECRETS / f"{service}-postgres-password")
    return database_url(server, DATABASES[service], password)


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = f"{path} cannot be read ({type(error).__name__})"
        raise WrongUsage(f"no address or password of Postgres: {why}; set PALLAS_POSTGRES_URL") from error


@asynccontextmanager
async def stopped(data: Path, *, with_databases: bool) -> AsyncGenerator[Installation]:
    """The installation in a data folder whose stack does not run. Its broker and Postgres run inside the block.

    Raises:
        Refused: the stack runs, or a server cannot be started.
        WrongUsage: the context is another platform.
    """
    if kept_in(data, "") is None:
        raise WrongUsage("the context names another platform than that of the data folder: pass --nats or --data")
    with locked(data) as folder:
        async with AsyncExitStack() as stack:
            seeds, key = Seeds(folder / SECRETS / "nats"), broker_key(folder)
            nats = EmbeddedNats(folder / "nats", seeds, key, free_port(), free_port())
            await stack.enter_async_context(_runs(await nats.launch(), folder, "nats-server"))
            urls = dict[str, str]()
            if with_databases:
                postgres = EmbeddedPostgres(folder / "postgres", kept_secret(folder, "postgres-password"), free_port())
                await stack.enter_async_context(_runs(await postgres.launch(), folder, "postgres"))
                for service, name in DATABASES.items():
                    password = kept_secret(folder, f"{service}-postgres-password")
                    await ensure_database(postgres.url, name, password)
                    urls[name] = database_url(postgres.url, name, password)
            yield Installation(access_to(nats.url, folder, RESTORE), urls)


@asynccontextmanager
async def _runs(launch: Launch, data: Path, name: str) -> AsyncGenerator[None]:
    import asyncio

    child = await start(launch, data / "log" / f"restore-{name}.log")
    ready, ended = asyncio.ensure_future(child.ready()), asyncio.ensure_future(child.ended())
    try:
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise Refused(f"{name} does not start: {child.last_line()}")
        yield
    finally:
        ready.cancel()
        await child.stop(_STOP_SECONDS)
