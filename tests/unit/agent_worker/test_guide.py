"""What the offline model understands of messages in plain words, and how it shows results."""

import time

import pytest
from pydantic_ai.tools import ToolDefinition

from agent_worker.llm.guide import guide, readable
from pallas_contracts.agents import JsonObject

TOOLS = [ToolDefinition(name=f"demo__{name}") for name in ("add", "long_task", "search", "look_up")]
AGENT = ToolDefinition(name="owl__owl")
DIGITS = "1" * 400


@pytest.mark.parametrize(
    ("message", "tool", "arguments"),
    [
        ("What is 19 + 23?", "add", {"a": 19.0, "b": 23.0}),
        ("19.5 and -2", "add", {"a": 19.5, "b": -2.0}),
        (f"{DIGITS} + 1", None, None),
        ("Run a task that takes 5 seconds", "long_task", {"seconds": 5.0, "steps": 5}),
        (f"A task of {DIGITS} s", None, None),
        ("Search the library for workspaces?", "search", {"query": "workspaces", "limit": 3}),
        ("What is a turn?", "look_up", {"term": "turn"}),
        ("Ask the owl about " + "x" * 5_000, "owl", {"message": "x" * 5_000}),
        ("Hello", None, None),
    ],
)
def test_a_request_takes_its_tool(message: str, tool: str | None, arguments: JsonObject | None) -> None:
    found = guide(message, [*TOOLS, AGENT])
    assert ((found.tool or "").rpartition("__")[2] or None, found.arguments) == (tool, arguments)


@pytest.mark.parametrize(
    "part", ["1", "1 ", "task ", "task 1", "find ", "what ", "what a ", "ask a ", "ask ", " ", "-"]
)
def test_the_longest_messages_are_read_at_once(part: str) -> None:
    message = (part * 200_000)[:200_000]
    begin = time.process_time()
    guide(message, [*TOOLS, AGENT])
    assert time.process_time() - begin < 1.0


PASSAGE = '{"title": "Turns", "text": "A turn\\nis one."}'


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (f'{{"results": [{PASSAGE}]}}', "**Turns**\n\n> A turn is one."),
        ('{"results": []}', "The library has nothing about that."),
        *(
            (other, other)
            for other in ('{"results": [1]}', '{"results": ["a"]}', '{"results": [{}]}', "[1]", "no JSON")
        ),
    ],
)
def test_passages_are_shown_as_quotes_and_everything_else_as_it_is(result: str, shown: str) -> None:
    assert readable(result) == shown
