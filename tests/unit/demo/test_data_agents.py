"""The demo's data agents: what they register, and what their functions answer."""

from typing import Any

import pytest

from pallas_data_agent import DataAgent
from pallas_demo.data_agents.example_lib import example_lib
from pallas_demo.data_agents.markets import AGENTS, binance_agent, data_cleaner, feature_extractor, news_fetcher

WORDS = {"Int": "integer", "Float": "number", "String": "string", "Boolean": "boolean"}
NUMBERS = {"type": "array", "items": {"type": "number"}}
LISTS = {f"List<{name}>": {"type": "array", "items": {"type": word}} for name, word in WORDS.items()}
TYPES: dict[str, Any] = {name: {"type": word} for name, word in WORDS.items()} | LISTS

SIGNATURES = """
SumList(numbers: List<Int>) Int
Average(numbers: List<Int>) Float
Max(numbers: List<Int>) Int
Min(numbers: List<Int>) Int
FilterGreaterThan(numbers: List<Int>, threshold: Int) List<Int>
MultiplyEach(numbers: List<Int>, multiplier: Int) List<Int>
Range(start: Int, end: Int) List<Int>
FormatNumber(number: Int) String
Uppercase(text: String) String
Lowercase(text: String) String
Trim(text: String) String
Replace(text: String, find: String, replace: String) String
WordCount(text: String) Int
TextLength(text: String) Int
Contains(text: String, substring: String) Boolean
SplitLines(text: String) List<String>
Split(text: String, delimiter: String) List<String>
SlowQuery(query: String) String
SlowApiCall(endpoint: String) String
ExpensiveCompute(data: String) String
FlakyService(request: String) String
TimeoutProneService(request: String) String
RateLimitedApi(request: String) String
ResourceIntensiveTask(task: String) String
QuickCheck(data: String) String
DeepAnalysis(data: String) String
AlwaysFailsService(request: String) String
"""
"""The functions of Constellation's example library."""


def ask(agent: DataAgent, function: str, **arguments: Any) -> Any:
    """Call a function in this process."""
    tool = agent.tools[function]
    return tool.call(tool.read(arguments), {})


def schemas(agent: DataAgent, function: str) -> tuple[Any, Any]:
    """The properties of a function's input, all of which are required, and the type of its output."""
    given, returned = (agent.registration["schema"][function][part] for part in ("input", "output"))
    assert given["required"] == list(given["properties"])
    return given["properties"], returned


def test_the_example_library_has_its_functions_with_their_types() -> None:
    wanted: dict[str, Any] = {}
    for line in SIGNATURES.split("\n")[1:-1]:
        name, _, rest = line.partition("(")
        parameters, _, result = rest.partition(") ")
        pairs = [parameter.split(": ") for parameter in parameters.split(", ")]
        wanted[name] = ({each: TYPES[word] for each, word in pairs}, TYPES[result])
    for name, (given, returned) in wanted.items():
        found = schemas(example_lib, name)
        assert (found[0], found[1].items() >= returned.items()) == (given, True), name
    assert wanted.keys() == example_lib.tools.keys()
    assert len(wanted) == 27


@pytest.mark.parametrize(
    ("function", "arguments", "answer"),
    [
        ("Uppercase", {"text": "Hello, World! 123"}, "HELLO, WORLD! 123"),
        ("Trim", {"text": "   \t\n  "}, ""),
        ("Replace", {"text": "hello hello hello", "find": "hello", "replace": "hi"}, "hi hi hi"),
        ("WordCount", {"text": "hello    world"}, 2),
        ("TextLength", {"text": "a b c!"}, 6),
        ("Contains", {"text": "hello", "substring": ""}, True),
        ("SumList", {"numbers": [42]}, 42),
        ("Average", {"numbers": [1, 2]}, 1.5),
        ("Average", {"numbers": []}, 0.0),
        ("Max", {"numbers": [-5, -2, -8]}, -2),
        ("Min", {"numbers": []}, 0),
        ("FormatNumber", {"number": 42}, "42"),
        ("FormatNumber", {"number": 1234567}, "1,234,567"),
        ("FilterGreaterThan", {"numbers": [1, 2, 3], "threshold": 1}, [2, 3]),
        ("MultiplyEach", {"numbers": [1, 2], "multiplier": 3}, [3, 6]),
        ("Range", {"start": 1, "end": 3}, [1, 2, 3]),
        ("Split", {"text": "a,b", "delimiter": ","}, ["a", "b"]),
        ("SplitLines", {"text": "a\nb"}, ["a", "b"]),
        ("QuickCheck", {"data": "x"}, "checked x"),
    ],
)
def test_a_function_of_the_example_library_answers(function: str, arguments: dict[str, Any], answer: object) -> None:
    assert ask(example_lib, function, **arguments) == answer


def test_the_agents_of_the_specification_register_as_it_says() -> None:
    registered = {agent.agent_id: agent.registration for agent in AGENTS}
    assert set(registered) == {"news_fetcher", "feature_extractor", "data_cleaner", "binance_agent"}
    assert registered["feature_extractor"]["resources"] == ["ohlcv_source"]
    for agent, function, field, type_ in (
        (feature_extractor, "extract_features", "features", NUMBERS),
        (binance_agent, "fetch_ohlcv", "ohlcv", {"type": "array", "items": NUMBERS}),
    ):
        given, returned = schemas(agent, function)
        assert given == {"symbol": {"type": "string"}, "interval": {"type": "string"}}
        assert returned["properties"] == {field: type_}
    assert registered["binance_agent"]["resources"] == ["binance_api"]
    assert registered["binance_agent"]["constraints"].items() >= {"timeout": 5, "memory": "128MB"}.items()
    assert {each["heartbeat_interval"] for each in registered.values()} == {60}


def test_the_agents_of_the_specification_answer() -> None:
    assert ask(news_fetcher, "fetch_recent_articles", symbol="AAPL") == {
        "articles": ["Apple releases new product", "Analysts bullish on AAPL"]
    }
    assert ask(data_cleaner, "fill_gaps", values=[None, 1.5, None, 2.0]) == {"values": [1.5, 1.5, 2.0]}
    candles = ask(binance_agent, "fetch_ohlcv", symbol="AAPL", interval="1d")["ohlcv"]
    features = ask(feature_extractor, "extract_features", symbol="AAPL", interval="1d")["features"]
    assert [len(candle) for candle in candles] == [6] * 5
    assert len(features) == 4
    assert features[0] == pytest.approx(0.004088)
