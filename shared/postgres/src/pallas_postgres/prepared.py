"""Statements that are compiled once and run by the driver, for what each request needs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Row, Select, Update
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import result_tuple
from sqlalchemy.sql.compiler import SQLCompiler

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
