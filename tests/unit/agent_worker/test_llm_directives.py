"""The offline model's directives."""

import pytest
from pydantic_ai.tools import ToolDefinition

from agent_worker.llm.guide import readable
from agent_worker.llm.offline import Fail, Report, Say, Sleep, Step, UseTool, plan


def test_a_message_without_directives_is_echoed_by_its_first_line() -> None:
    assert plan("\n hello there \nmore") == [Step([Say("Echo: hello there")])]


def test_a_path_or_unknown_word_is_no_directive() -> None:
    assert plan("/etc/passwd") == [Step([Say("Echo: /etc/passwd")])]
    assert plan("/tools a") == [Step([Say("Echo: /tools a")])]


def test_directives_run_in_order_and_other_lines_are_ignored() -> None:
    message = "please\n/say a\n/sleep 0.5\n/history\n/images\n/fail boo"
    assert plan(message) == [Step([Say("a"), Sleep(0.5), Report("history"), Report("images"), Fail("boo")])]


def test_each_tool_is_a_step_of_its_own() -> None:
    steps = plan('/say a\n/tool one\n/tool two {"x": 1}\n/say b')
    assert steps == [
        Step([Say("a")], [UseTool("one", {})]),
        Step([], [UseTool("two", {"x": 1})]),
        Step([Say("b")]),
    ]


def test_parallel_puts_the_tools_that_follow_into_one_step() -> None:
    steps = plan("/parallel\n/tool one\n/tool two\n/say x\n/tool three\n/tool four")
    assert steps == [
        Step([], [UseTool("one", {}), UseTool("two", {})]),
        Step([Say("x")], [UseTool("three", {})]),
        Step([], [UseTool("four", {})]),
        Step(),
    ]


@pytest.mark.parametrize("line", ["/tool", "/tool add [1]", "/tool add {", "/sleep", "/sleep soon"])
def test_a_malformed_directive_is_answered_with_its_usage(line: str) -> None:
    (step,) = plan(line)
    assert isinstance(step.actions[0], Say)
    assert "takes" in step.actions[0].text


TOOLS = [
    ToolDefinition(name=name, description=f"About {name}.\nMore.")
    for name in ("research__research", "toolbox__add", "toolbox__long_task", "toolbox__look_up", "library__search")
]


@pytest.mark.parametrize(
    ("message", "tool", "arguments"),
    [
        ("Ask the research agent what a turn is", "research__research", {"message": "what a turn is"}),
        ("what is 19 + 23?", "toolbox__add", {"a": 19.0, "b": 23.0}),
        ("Run a task that takes 500 seconds", "toolbox__long_task", {"seconds": 60.0, "steps": 60}),
        ("Search the library for workspaces.", "library__search", {"query": "workspaces", "limit": 3}),
        ("What does slot mean?", "toolbox__look_up", {"term": "slot"}),
    ],
)
def test_plain_words_call_the_tool_that_they_are_about(message: str, tool: str, arguments: dict[str, object]) -> None:
    first, last = plan(message, TOOLS)
    assert first.tools == [UseTool(tool, arguments)]
    assert last.readable
    assert plan(message, [each for each in TOOLS if each.name != tool])[0].tools != first.tools


def test_anything_else_is_answered_with_what_the_agent_can_do() -> None:
    (step,) = plan("What can you do?", TOOLS)
    assert isinstance(step.actions[0], Say)
    said = step.actions[0].text
    assert "- `research`: About research__research." in said
    assert "- `toolbox/add`: About toolbox__add." in said
    assert "- Ask research what a turn is" in said


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ('{"results": [{"title": "Turns", "text": "A\\nturn"}]}', "**Turns**\n\n> A turn"),
        ('{"results": []}', "The library has nothing about that."),
        ('{"results": 1}', '{"results": 1}'),
        ("42", "42"),
        ("not JSON", "not JSON"),
    ],
)
def test_passages_are_quoted(result: str, shown: str) -> None:
    assert readable(result) == shown
