"""Databases of services on one Postgres, made where they are missing."""

from urllib.parse import urlsplit

from pallas_cli.refused import Refused

_TIMEOUT = 5.0


def database_url(url: str, name: str) -> str:
    """The address of the database `name` on the server at `url`."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def ensure_database(url: str, name: str) -> None:
    """Make the database `name` on the server at `url`, unless it is there.

    Raises:
        Refused: the server cannot be used, or the database can be neither found nor made.
    """
    from sqlalchemy import text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.ext.asyncio import create_async_engine

    address = make_url(url).set(drivername="postgresql+asyncpg")
    if mode := address.query.get("sslmode"):
        address = address.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    engine = create_async_engine(address, isolation_level="AUTOCOMMIT", connect_args={"timeout": _TIMEOUT})
    try:
        async with engine.connect() as connection:
            found = await connection.scalar(text("select 1 from pg_database where datname = :name"), {"name": name})
            if found is None:
                await connection.execute(text(f'create database "{name}"'))
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        why = (str(getattr(error, "orig", None) or error).splitlines() or [type(error).__name__])[0]
        raise Refused(f"the database {name!r} on Postgres at {address.host} cannot be used: {why}") from error
    finally:
        await engine.dispose()
