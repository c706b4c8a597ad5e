"""The tables of docs/team-folder.md: every field of the files of a team folder, from their schema."""

import ast
import inspect
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, TypeAliasType, get_args, get_origin

from docs.site.inserted import table, with_tables
from docs.site.paths import DOCS
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from pallas_teams import schema
from pallas_teams.schema import Section

PAGE = DOCS / "team-folder.md"

_TABLES: dict[str, type[Section]] = {
    "agents.yaml": schema.AgentsFile,
    "agent": schema.AgentSection,
    "model_capabilities": schema.CapabilitiesSection,
    "tool": schema.ToolSection,
    "budget": schema.BudgetSection,
    "allow": schema.AllowSection,
    "fastagent.config.yaml": schema.ConfigFile,
    "provider": schema.ProviderSection,
    "server": schema.ServerSection,
}
_ALIASES = {
    "Name": "name: 1 to 64 of `a-z 0-9 _ -`",
    "Version": "semantic version",
    "Domain": "reverse domain",
    "Model": "model",
    "Uuid": "UUID",
    "Port": "port",
    "AgentPort": "port, 1024 to 65535",
    "Count": "whole number from 1",
    "Seconds": "number above 0, at most 30 days",
    "PerSecond": "number above 0",
    "Span": "time span such as `12h` or `7d`, or seconds",
    "Keep": "time span, or a mapping of time spans",
    "_Tokens": "whole number from 0",
    "_Money": "number from 0",
    "Currency": "three letters",
}
"""Of aliases of the schema that say more than the type they are made of."""
_PLAIN: dict[object, str] = {
    str: "text",
    bool: "true or false",
    SecretStr: "text",
    int: "whole number",
    float: "number",
}


def team_folder() -> str:
    """The page."""
    columns = ("field", "type", "default", "meaning")
    return with_tables(PAGE, {name: table(columns, _rows(section)) for name, section in _TABLES.items()})


def _rows(section: type[Section]) -> list[tuple[str, ...]]:
    return [(f"`{name}`", *_cells(field, _meanings(section)[name])) for name, field in section.model_fields.items()]


def _cells(field: FieldInfo, meaning: str) -> tuple[str, str, str]:
    """Type, default and meaning."""
    said, _, otherwise = meaning.partition(" Default: ")
    return type_of(field.annotation), otherwise.removesuffix(".") or _default(field), said


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    match field.get_default(call_default_factory=True):
        case None | () | "" | BaseModel():
            return "none"
        case dict():
            return "none"
        case bool(value):
            return f"`{str(value).lower()}`"
        case float(value):
            return f"`{value:g}`"
        case value:
            return f"`{value}`"


def type_of(annotation: Any) -> str:
    """The words for a type of the schema."""
    if isinstance(annotation, TypeAliasType):
        return _ALIASES.get(annotation.__name__) or type_of(annotation.__value__)
    inner = [argument for argument in get_args(annotation) if argument not in (NoneType, Ellipsis)]
    match get_origin(annotation):
        case None if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return "mapping"
        case None:
            return _PLAIN[annotation]
        case origin if origin is Literal:
            return " or ".join(f"`{value}`" for value in inner)
        case origin if origin is tuple:
            return f"list of {type_of(inner[0])}"
        case origin if origin is dict:
            return "mapping"
        case origin if origin is UnionType:
            return " or ".join(map(type_of, inner))
        case _:
            return type_of(inner[0])


@cache
def _meanings(section: type[Section]) -> dict[str, str]:
    """The text below each field of a section, with those that it inherits."""
    found: dict[str, str] = {}
    for kind in (kind for kind in section.__mro__ if issubclass(kind, Section)):
        [definition] = ast.parse(inspect.getsource(kind)).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                    found.setdefault(name, " ".join(said.split()))
                case _:
                    pass
    return found
