"""Arguments of the tools. The models are the input schemas, and their errors name the field."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from library_search.store.queries import MOST_WORDS
from pallas_contracts.errors import Rejected

LONGEST_NAME, LONGEST_CURSOR = 1000, 16_384
LARGEST_OFFSET = 1000
MOST_RESULTS, MOST_LINES = 50, 200
MOST_CHARACTERS = 50_000
LARGEST_POSITION = 2**30
"""Postgres limits a text to 1 GiB."""

_SUBJECT = re.compile(r"^\w+ should ")
"""The beginning of a message of pydantic, such as `Input should be a valid list`."""
_KEY = TypeAdapter(list[str], config=ConfigDict(strict=True))


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not hold a NUL character")
    return value


type Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_storable)]
type Cursor = Annotated[str, Field(min_length=1, max_length=LONGEST_CURSOR)]
type Limit = Annotated[int, Field(ge=1, le=MOST_LINES)]


class Arguments(BaseModel):
    """Arguments of a tool. None means that an optional one is not given."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Search(Arguments):
    """Arguments of `search`."""

    query: Name = Field(
        description='Words to search for: all words must occur. Also "a phrase", one or another, -without. '
        f"At most {MOST_WORDS} words."
    )
    libraries: Annotated[list[Name], Field(max_length=200)] | None = Field(
        None, description="Search only in these libraries, by uid."
    )
    collection: Name | None = Field(None, description="Search only in collections of this name.")
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = Field(10, description="Maximum number of results.")
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET)] = Field(0, description="Results to skip, for paging.")


class GetDocument(Arguments):
    """Arguments of `get_document`."""

    document: Name = Field(description="The document's id.")
    offset: Annotated[int, Field(ge=0, le=LARGEST_POSITION)] = Field(0, description="First character to return.")
    limit: Annotated[int, Field(ge=1, le=MOST_CHARACTERS)] = Field(20_000, description="Maximum number of characters.")


class GetChunk(Arguments):
    """Arguments of `get_chunk`."""

    chunk: Name = Field(description="The chunk's id, as `search` returns it.")
    before: Annotated[int, Field(ge=0, le=10)] = Field(0, description="Number of chunks before it to return as well.")
    after: Annotated[int, Field(ge=0, le=10)] = Field(0, description="Number of chunks after it to return as well.")


class ListLibraries(Arguments):
    """Arguments of `list_libraries`."""

    limit: Limit = Field(100, description="Maximum number of libraries.")
    cursor: Cursor | None = Field(None, description="`next_cursor` of the previous answer.")


class ListCollections(Arguments):
    """Arguments of `list_collections`."""

    library: Name | None = Field(None, description="List only this library, by uid.")
    limit: Limit = Field(100, description="Maximum number of collections.")
    cursor: Cursor | None = Field(None, description="`next_cursor` of the previous answer.")


class ListItems(Arguments):
    """Arguments of `list_items`."""

    library: Name | None = Field(None, description="List only this library, by uid.")
    collection: Name | None = Field(None, description="List only collections of this name.")
    limit: Limit = Field(100, description="Maximum number of documents.")
    cursor: Cursor | None = Field(None, description="`next_cursor` of the previous answer.")


class GetHealth(Arguments):
    """Arguments of `get_health`: none."""


def parse[A: Arguments](model: type[A], given: Mapping[str, Any]) -> A:
    """Arguments of a tool.

    Raises:
        Rejected: naming the first field that does not fit and why, never what was given.
    """
    given_values = {name: value for name, value in given.items() if value is not None}
    try:
        return model.model_validate(given_values)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"])[:100] or "arguments"
        raise Rejected(_sentence(field, fault), code="bad_arguments", field=field) from error


def _sentence(field: str, fault: ErrorDetails) -> str:
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown argument {field!r}"
        case "missing":
            return f"{field}: is required"
        case _:
            return f"{field}: {_SUBJECT.sub('must ', fault['msg'].removeprefix('Value error, '))}"


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a model, without the titles that pydantic generates."""
    return {name: _without_titles(part) for name, part in model.model_json_schema().items() if name != "title"}


def _without_titles(part: JsonValue) -> JsonValue:
    match part:
        case dict():
            return {
                name: _without_titles(inner)
                for name, inner in part.items()
                if not (name == "title" and isinstance(inner, str))
            }
        case list():
            return [_without_titles(inner) for inner in part]
        case _:
            return part


def cursor_of(*key: str) -> str:
    """The cursor after the line with that key."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def key_of(cursor: str | None, parts: int) -> tuple[str, ...] | None:
    """The key in a cursor; None at the beginning.

    Raises:
        Rejected: the cursor is not valid.
    """
    if cursor is None:
        return None
    try:
        key = _KEY.validate_json(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except ValueError:
        key = []
    if len(key) != parts or any("\0" in part for part in key):
        raise Rejected("cursor: must be a `next_cursor` of this tool", code="bad_arguments", field="cursor")
    return tuple(key)
