"""What an agent registers with, and what is refused when it is written or started."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field, ValidationError
from pydantic.errors import PydanticUserError

from data_pool.registering.registration import check_schemas, read_registration
from pallas_contracts.turns import Principal
from pallas_data_agent import DataAgent, run_agents

NOWHERE = "ws://127.0.0.1:1"


@dataclass
class Candle:
    """A dataclass."""

    close: float
    note: str | None = None


class Query(BaseModel):
    """A model with objects."""

    candles: list[Candle]
    day: date
    kind: Literal["spot", "future"] = "spot"
    limit: Annotated[int, Field(gt=0)] = 5


class Tree(TypedDict):
    """A type that has itself in it."""

    children: list["Tree"]


def search(query: Query, symbol: Any, *, deep: bool = False, **more: float) -> list[Candle]:
    """Find candles."""
    return [*query.candles, Candle(sum(more.values()))] if deep and symbol else []


def grow(tree: Tree) -> Tree:
    """Return it."""
    return tree


def nothing() -> None:
    """Take and return nothing."""


def test_the_schemas_of_type_hints_are_what_the_pool_takes() -> None:
    agent = DataAgent("a", memory="1.5 GiB", idempotent=True)
    for function in (search, grow, nothing):
        agent.tool(function)
    found = read_registration(agent.registration, datetime.now(UTC), one_at_a_time=False, largest=100_000)
    asyncio.run(check_schemas(found.definition, Principal(id="127.0.0.1")))
    tools = {tool.name: tool for tool in found.definition.tools}
    assert found.warnings == ()
    given = tools["search"].input_schema
    assert given["properties"].keys() == {"query", "symbol", "deep"}
    assert given["required"] == ["query", "symbol"]
    assert given["properties"]["deep"] == {"type": "boolean", "default": False}
    assert tools["nothing"].input_schema["properties"] == {}
    assert [tool.description for tool in tools.values()] == ["Find candles.", "Return it.", "Take and return nothing."]


def test_arguments_arrive_as_the_hints_say_and_results_are_json() -> None:
    agent = DataAgent("a")
    agent.tool(search)
    tool = agent.tools["search"]
    query = {"candles": [{"close": 1}], "day": "2026-01-31"}
    arguments = tool.read({"query": query, "symbol": "x", "deep": True, "other": 2})
    assert arguments["query"] == Query(candles=[Candle(1.0)], day=date(2026, 1, 31))
    assert tool.call(arguments, {}) == [{"close": 1.0, "note": None}, {"close": 2.0, "note": None}]
    with pytest.raises(ValidationError, match="greater than 0"):
        tool.read({"query": {**query, "limit": 0}, "symbol": "x"})


def test_a_parameter_that_cannot_be_named_and_a_type_without_a_schema_are_refused() -> None:
    def add(*numbers: int) -> int:
        return sum(numbers)

    def log(to: logging.Logger) -> None:
        to.info("x")

    with pytest.raises(TypeError, match="add has a parameter that cannot be given by name"):
        DataAgent("a").tool(add)
    with pytest.raises(PydanticUserError, match="Logger"):
        DataAgent("a").tool(log)


def test_two_tools_of_one_name_are_refused() -> None:
    agent = DataAgent("a")
    agent.tool(name="x")(nothing)
    with pytest.raises(ValueError, match="a has two tools 'x'"):
        agent.tool(name="x")(nothing)


def test_memory_is_a_number_with_a_unit() -> None:
    read = [DataAgent("a", memory=text).memory_bytes for text in ("128MB", "1.5 GiB", "64 KiB", "9B")]
    assert read == [128_000_000, 1_610_612_736, 65_536, 9]
    with pytest.raises(ValueError, match="could not interpret byte unit: lots"):
        DataAgent("a", memory="5 lots")


def test_an_agent_that_cannot_run_is_refused_before_it_connects(capfd: pytest.CaptureFixture[str]) -> None:
    def inner() -> None:
        """A function that no other process can import."""

    small, hidden = DataAgent("small", memory="1MB"), DataAgent("hidden")
    small.tool(nothing)
    hidden.tool(inner)
    with pytest.raises(ValueError, match="empty has no tools"):
        run_agents([DataAgent("empty")], NOWHERE)
    with pytest.raises(ValueError, match=r"hidden: .*inner"):
        hidden.run(NOWHERE)
    with pytest.raises(ValueError, match="small: a worker ended while it started"):
        small.run(NOWHERE)
    assert "MemoryError" in capfd.readouterr().err
