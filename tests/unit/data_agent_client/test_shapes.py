"""The pool's shorthand for type hints, and what an agent refuses when it is written."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from pallas_data_agent import DataAgent
from pallas_data_agent.hosting import host
from pallas_data_agent.shapes import Shape, shape_of


class Candle(TypedDict):
    """An object."""

    close: float
    note: NotRequired[str]


@dataclass
class Query:
    """An object with objects."""

    candles: list[Candle]
    first: Candle
    limit: int = 5
    near: Candle | None = None


@pytest.mark.parametrize(
    ("hint", "shape"),
    [
        (str, "string"),
        (int, "int"),
        (float, "float"),
        (bool, "bool"),
        (type(None), "null"),
        (Any, "any"),
        (dict, "object"),
        (list, "list[any]"),
        (list[list[float]], "list[list[float]]"),
        (dict[str, int | None], "dict[string, int | null]"),
        (Candle, {"close": "float", "note": "optional[string]"}),
        (list[Candle], "list[{close: float, note: optional[string]}]"),
        (
            Query,
            {
                "candles": "list[{close: float, note: optional[string]}]",
                "first": {"close": "float", "note": "optional[string]"},
                "limit": "optional[int]",
                "near": "optional[{close: float, note: optional[string]}]",
            },
        ),
    ],
    ids=repr,
)
def test_a_type_hint_has_a_shape(hint: Any, shape: Shape) -> None:
    assert shape_of(hint) == shape


@pytest.mark.parametrize("hint", [Literal["a"], dict[int, str], set[int], bytes], ids=repr)
def test_a_type_without_a_word_is_refused_with_what_to_do(hint: Any) -> None:
    with pytest.raises(TypeError, match="pass input_schema or output_schema"):
        shape_of(hint)


def test_parameters_with_a_default_are_optional_and_those_without_a_hint_are_anything() -> None:
    agent = DataAgent("a")

    def look(symbol: Any, interval: str = "1d", *, deep: bool | None = None, **more: Any) -> Any:
        return symbol, interval, deep, more

    del look.__annotations__["symbol"], look.__annotations__["return"]
    agent.tool(look)
    assert agent.registration["schema"] == {
        "look": {
            "input": {"symbol": "any", "interval": "optional[string]", "deep": "optional[bool]"},
            "output": "any",
        }
    }


def test_a_parameter_that_cannot_be_named_is_refused() -> None:
    def add(*numbers: int) -> int:
        return sum(numbers)

    with pytest.raises(TypeError, match="'numbers' cannot be given by name"):
        DataAgent("a").tool(add)


def test_two_tools_of_one_name_are_refused() -> None:
    agent = DataAgent("a")
    agent.tool(name="x")(test_a_type_hint_has_a_shape)
    with pytest.raises(ValueError, match="a has two tools 'x'"):
        agent.tool(name="x")(test_a_type_hint_has_a_shape)


@pytest.mark.parametrize(
    ("memory", "limit"), [("128MB", 128_000_000), ("1.5 GiB", 1_610_612_736), ("64 KiB", 65_536), ("9B", 9)]
)
def test_memory_is_a_number_with_a_unit(memory: str, limit: int) -> None:
    assert DataAgent("a", memory=memory).memory == limit


@pytest.mark.parametrize("settings", [{"agent_id": "A B"}, {"agent_id": "a", "memory": "lots"}], ids=["id", "memory"])
def test_a_setting_that_is_wrong_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"A B|lots"):
        DataAgent(**settings)


def test_a_limit_below_what_the_program_takes_is_refused_before_it_connects() -> None:
    agent = DataAgent("small", memory="1MB")
    agent.tool(name="x")(test_a_type_hint_has_a_shape)
    with pytest.raises(ValueError, match="small: memory 1 MB: the modules alone take"):
        host({"small": agent}, "ws://127.0.0.1:1", None)
    with pytest.raises(ValueError, match="empty has no tools"):
        host({"empty": DataAgent("empty")}, "ws://127.0.0.1:1", None)
