"""The migrations make the tables that the code has."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect
from sqlalchemy.ext.asyncio import AsyncEngine

from workspaces.tables import Base


async def test_the_migrated_tables_are_those_of_the_code(engine: AsyncEngine) -> None:
    def differences(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return compare_metadata(context, Base.metadata)

    async with engine.connect() as connection:
        found = await connection.run_sync(differences)
    assert [one for one in found if "alembic_version" not in str(one)] == []


async def test_the_migrated_checks_are_those_of_the_code(engine: AsyncEngine) -> None:
    def checks(connection: Connection) -> dict[str, set[str | None]]:
        look = inspect(connection)
        return {name: {check["name"] for check in look.get_check_constraints(name)} for name in Base.metadata.tables}

    async with engine.connect() as connection:
        found = await connection.run_sync(checks)
    for name, table in Base.metadata.tables.items():
        wanted = {str(one.name) for one in table.constraints if one.__visit_name__ == "check_constraint"}
        assert wanted <= found[name], name
