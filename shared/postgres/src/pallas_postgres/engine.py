"""Postgres: a small pool with timeouts, and errors that say whether a retry may work."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Annotated, Any

import asyncpg
from pydantic import AfterValidator, SecretStr
from sqlalchemy import Row, Select, Update, event, text
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_connection, PGDialect_asyncpg
from sqlalchemy.engine import ExceptionContext, make_url, result_tuple
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.util import greenlet_spawn

from pallas_contracts.errors import Unavailable


def _check_postgres(value: SecretStr) -> SecretStr:
    try:
        scheme = make_url(value.get_secret_value()).get_backend_name()
    except ArgumentError:
        scheme = ""
    if scheme not in ("postgresql", "postgres"):
        raise ValueError("must be a postgresql:// address")
    return value


type PostgresUrl = Annotated[SecretStr, AfterValidator(_check_postgres)]
"""A libpq address, which may have a password."""


_DIALECT = PGDialect_asyncpg()

type Rows = Sequence[Row[*tuple[Any, ...]]]
type Statement = Select[*tuple[Any, ...]] | Update[*tuple[Any, ...]]


class Prepared:
    """A statement for `fetch`. What differs between its executions is in parameters (`bindparam`)."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement

    @cached_property
    def sql(self) -> str:
        """As the driver gets it."""
        return str(self._compiled)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The values of the parameters as the driver gets them, in their order."""
        given = self._compiled.construct_params(values)
        return [given[name] if write is None else write(given[name]) for name, write in self._parameters]

    def rows(self, records: Iterable[Sequence[Any]]) -> Rows:
        """The rows that the driver has got."""
        if any(self._readers):
            records = (
                [value if read is None else read(value) for value, read in zip(record, self._readers, strict=True)]
                for record in records
            )
        return [self._row(record) for record in records]

    @cached_property
    def _compiled(self) -> SQLCompiler:
        compiled = self.statement.compile(dialect=_DIALECT)
        assert isinstance(compiled, SQLCompiler), "only statements of SELECT and UPDATE can be prepared"
        return compiled

    @cached_property
    def _parameters(self) -> list[tuple[str, Callable[[Any], Any] | None]]:
        names, binds = self._compiled.positiontup or (), self._compiled.binds
        return [(name, binds[name].type.dialect_impl(_DIALECT).bind_processor(_DIALECT)) for name in names]

    @cached_property
    def _readers(self) -> list[Callable[[Any], Any] | None]:
        columns = self.statement.exported_columns
        return [column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, None) for column in columns]

    @cached_property
    def _row(self) -> Callable[[Iterable[Any]], Row[*tuple[Any, ...]]]:
        names = self.statement.exported_columns.keys()
        return result_tuple(list(map(str, names)))


CONNECT_SECONDS = 3.0
STATEMENT_SECONDS = 5.0
COMMAND_SECONDS = 2 * STATEMENT_SECONDS
POOL_WAIT_SECONDS = 2.0
PING_SECONDS = 1.0
"""A connection that nobody has used for so long is checked before it is used again."""
_SERVER_SETTINGS = {
    "statement_timeout": f"{STATEMENT_SECONDS:g}s",
    "lock_timeout": f"{STATEMENT_SECONDS:g}s",
    "idle_in_transaction_session_timeout": "30s",
}
_TRANSIENT = ("08", "25006", "25P03", "40", "53", "55P03", "57")
"""Transient classes of SQLSTATE: connections, a read-only standby, an idle transaction that was ended, conflicts,
resources, locks, operator intervention."""
_ROLLED_BACK = ("40001", "40P01")
"""SQLSTATE of a transaction that was in the way of another one, and was rolled back."""
TRIES = 3
"""How often `transact` runs a transaction that Postgres rolls back because of another one."""

_USED = "used"
_CANCELLED = "57014"
"""SQLSTATE of a statement that took longer than `statement_timeout`."""


def open_engine(
    url: str,
    *,
    pool: int,
    service: str,
    options: Mapping[str, str] | None = None,
    command_seconds: float | None = COMMAND_SECONDS,
) -> AsyncEngine:
    """An engine with at most `pool` connections, which connects when it is used.

    `url` is a libpq address, which may have `sslmode`. `options` are server settings for these connections. A command
    times out after `command_seconds` on this side, whatever the timeouts of the server; None is no timeout.
    """
    address = make_url(url).set(drivername="postgresql+asyncpg")
    if mode := address.query.get("sslmode"):
        address = address.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    engine = create_async_engine(
        address,
        pool_size=pool,
        max_overflow=0,
        pool_timeout=POOL_WAIT_SECONDS,
        pool_use_lifo=True,  # the connection used last has most statements prepared
        hide_parameters=True,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "command_timeout": command_seconds,
            "server_settings": {"application_name": f"pallas-{service}", **_SERVER_SETTINGS, **(options or {})},
        },
    )
    _check_idle_connections(engine)
    return engine


def _check_idle_connections(engine: AsyncEngine) -> None:
    """Replace connections that broke while nobody used them, and each of them alone.

    SQLAlchemy's own check costs three messages each time, and takes one broken connection for the end of all. Here a
    connection that was closed is noticed without any message, and only one that was idle is asked.
    """

    def check(connection: AsyncAdapt_asyncpg_connection, entry: ConnectionPoolEntry, _: object) -> None:
        used: float = entry.info.get(_USED, float("inf"))
        idle = time.monotonic() - used >= PING_SECONDS
        try:
            if idle:
                connection.ping()
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error
        if connection.driver_connection.is_closed():
            raise DisconnectionError

    def note(_: AsyncAdapt_asyncpg_connection | None, entry: ConnectionPoolEntry) -> None:
        entry.info[_USED] = time.monotonic()

    def keep_others(broken: ExceptionContext) -> None:
        broken.invalidate_pool_on_disconnect = False

    event.listen(engine.sync_engine, "checkout", check)
    event.listen(engine.sync_engine, "checkin", note)
    event.listen(engine.sync_engine, "handle_error", keep_others)


class RolledBack(Unavailable):
    """Postgres rolled a transaction back because of another one, so it is known that nothing was changed."""


DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asyncpg raises; the last one when a connection breaks in the middle of a message."""


@asynccontextmanager
async def postgres_errors() -> AsyncGenerator[None]:
    """Turn transient errors into `Unavailable`. Other errors are bugs, and are raised as they are.

    Raises:
        RolledBack: the transaction was in the way of another one (`busy`).
        Unavailable: Postgres cannot be used right now, or a statement timed out (`too_slow`).
    """
    try:
        yield
    except DBAPIError as error:
        state: str = getattr(error.orig, "sqlstate", None) or ""
        if known := _transient(state):
            raise known from error
        if error.connection_invalidated or isinstance(error.__cause__, OSError):
            raise _away() from error
        if not state and not error.statement:
            raise _away() from error
        if isinstance(getattr(error.orig, "__cause__", None), asyncpg.InternalClientError):
            raise _away() from error  # the connection broke in the middle of a message
        raise
    except asyncpg.PostgresError as error:
        if known := _transient(error.sqlstate or ""):
            raise known from error
        raise
    except (OSError, PoolTimeout) as error:
        raise _away() from error


def _transient(state: str) -> Unavailable | None:
    """The error of a transient SQLSTATE."""
    if state == _CANCELLED:
        return Unavailable("the request took too long and was cancelled; try again", code="too_slow")
    if state in _ROLLED_BACK:
        return RolledBack("somebody else changed the same just now; try again", code="busy")
    return _away() if state.startswith(_TRANSIENT) else None


def _away() -> Unavailable:
    return Unavailable("the database cannot be used right now; try again", code="no_database")


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncGenerator[AsyncSession]:
    """A read-only session. All statements in the block see one snapshot.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    async with postgres_errors(), AsyncSession(engine, expire_on_commit=False) as session:
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})
        yield session


async def fetch(engine: AsyncEngine, statement: Prepared, values: Mapping[str, Any] | None = None) -> Rows:
    """The rows of a statement that is a transaction, with a third of the messages of `reading` or `writing`.

    It sees what is committed when it begins. SQLAlchemy only lends the connection: its cache, results
    and greenlet cost several times the CPU time of the driver.

    Raises:
        Unavailable: Postgres cannot be used right now. It is unknown whether a statement that changes something was
            committed.
    """
    arguments = statement.arguments(values or {})
    async with postgres_errors():
        with await greenlet_spawn(engine.sync_engine.connect) as lent:
            driver: Any = lent.connection.driver_connection
            try:
                records = await driver.fetch(statement.sql, *arguments)
            except (asyncpg.PostgresError, asyncpg.DataError):
                raise
            except BaseException as error:
                lost = driver.is_closed() and isinstance(error, asyncpg.InterfaceError)
                lent.invalidate()  # the statement may still run
                if lost or isinstance(error, asyncpg.InternalClientError):
                    raise _away() from error
                raise
    return statement.rows(records)


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncGenerator[AsyncSession]:
    """A session whose transaction is committed at the end of the block, unless the block raises.

    Raises:
        Unavailable: Postgres cannot be used right now. It is unknown whether the transaction was committed.
    """
    async with postgres_errors(), AsyncSession(engine, expire_on_commit=False) as session:
        yield session
        await session.commit()


async def transact[R](engine: AsyncEngine, work: Callable[[AsyncSession], Awaitable[R]]) -> R:
    """The result of `work` with the session of a transaction, which runs again if Postgres rolls it back.

    `work` changes nothing but the database.

    Raises:
        RolledBack: other transactions were in the way each time.
        Unavailable: as for `writing`; then it is not repeated.
    """
    for _ in range(TRIES - 1):
        with suppress(RolledBack):
            async with writing(engine) as session:
                return await work(session)
    async with writing(engine) as session:
        return await work(session)


async def ping(engine: AsyncEngine) -> None:
    """Check that Postgres answers.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    async with postgres_errors(), engine.connect() as connection:
        await connection.execute(text("select 1"))
