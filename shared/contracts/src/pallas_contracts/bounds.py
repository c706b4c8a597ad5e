"""Bounds of what workers publish: definitions and presences are read by every gateway, whoever has written them."""

import math
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, ValidationError

MOST_LEVELS = 64
MOST_VALUES = 10_000
LONGEST_TEXT = 20_000
LONGEST_LINE = 1000
LONGEST_NAME = 200
MOST_COUNT = 1_000_000_000
MOST_SECONDS = 30 * 86_400
MOST_PER_SECOND = 1_000_000
_LARGEST_INTEGER = 2**63
_YEARS = range(1970, 9000)

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
type JsonObject = dict[str, Any]


def _bounded(value: JsonObject) -> JsonObject:
    """The object itself: JSON of at most `MOST_LEVELS` levels, `MOST_VALUES` values and `LONGEST_TEXT` per text."""
    level: list[Json] = [value]
    values = 0
    for _ in range(MOST_LEVELS):
        following: list[Json] = []
        for each in level:
            match each:
                case dict():
                    following += each
                    following += each.values()
                case list():
                    following += each
                case _:
                    _check_scalar(each)
        values += len(level)
        if values > MOST_VALUES:
            raise ValueError(f"has more than {MOST_VALUES} values")
        if not following:
            return value
        level = following
    raise ValueError(f"has more than {MOST_LEVELS} levels")


def _check_scalar(value: object) -> None:
    match value:
        case None | bool():
            return
        case str() if len(value) <= LONGEST_TEXT:
            return
        case int() if abs(value) < _LARGEST_INTEGER:
            return
        case float() if math.isfinite(value):
            return
        case _:
            raise ValueError(f"has a text of more than {LONGEST_TEXT} characters, or a number that is too large")


def _in_utc(value: datetime) -> datetime:
    if value.year not in _YEARS:
        raise ValueError(f"must be a time between the years {_YEARS[0]} and {_YEARS[-1]}")
    return value.astimezone(UTC)


def _address(value: str) -> str:
    try:
        urlsplit(value)
    except ValueError:
        raise ValueError("is no address") from None
    return value


type BoundedObject = Annotated[JsonObject, AfterValidator(_bounded)]
type Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]

type Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
type Line = Annotated[str, StringConstraints(max_length=LONGEST_LINE)]
type Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]
type Url = Annotated[str, StringConstraints(max_length=LONGEST_TEXT), AfterValidator(_address)]

FEW, MANY = 32, 500
"""How many items a list may have."""

PORTS = range(1024, 65_536)
"""The ports that an agent may have: those below belong to the host's own services."""

type Port = Annotated[int, Field(ge=PORTS.start, le=PORTS.stop - 1)]
type Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]
type Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]
type PerSecond = Annotated[float, Field(ge=0, le=MOST_PER_SECOND)]


def line(text: str) -> str:
    """The beginning of a text, as long as a `Line` may be."""
    return text[:LONGEST_LINE]


def reason_of(error: ValidationError) -> str:
    """The first fault of a definition: its field and the reason, without the value."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:64] for part in fault["loc"]) or "definition"
    return f"{where}: {fault['msg'].removeprefix('Value error, ')}"
