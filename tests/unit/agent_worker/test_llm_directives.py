"""The offline model's directives."""

import pytest

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
