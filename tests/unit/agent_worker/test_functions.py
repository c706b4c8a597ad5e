"""Agents written in Python: what their functions return, and how it becomes outcomes and MCP results."""

import asyncio
import base64
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.runtimes import Events, a_team, a_turn, text_of

from agent_worker.teams import Reach
from pallas_contracts.agents import AgentRead
from pallas_contracts.errors import NotFound, Rejected, Superseded, Unavailable
from pallas_contracts.turns import LogMessage, Progress, ToolStarted
from pallas_hosting.functions import (
    CallContext,
    FunctionAgent,
    InputRequired,
    JsonObject,
    ProtocolFault,
    ReadContext,
    Result,
)
from pallas_hosting.functions.agent import UriTemplate
from pallas_hosting.functions.runtime import FunctionRuntime
from pallas_turns.runtime import Completed, Failed, NeedsInput, Outcome, Turn

agent = FunctionAgent()


@agent.tool("greet", "Greet somebody", input_schema={"type": "object", "properties": {"name": {"type": "string"}}})
async def greet(ctx: CallContext, arguments: JsonObject) -> str:
    return f"hello {arguments['name']}"


@agent.tool("count")
async def count(ctx: CallContext, arguments: JsonObject) -> Result:
    for value in (0, 50, 100):
        ctx.progress(value, 100, f"at {value}")
    ctx.log("info", {"said": "info"}, "counter")
    ctx.log("debug", "quiet")
    return Result(content=({"type": "text", "text": "counted"},), structured={"count": 3})


@agent.tool("lost")
async def lost(ctx: CallContext, arguments: JsonObject) -> str:
    ctx.progress(float("nan"))
    return "never"


@agent.tool("ask")
async def ask(ctx: CallContext, arguments: JsonObject) -> str | InputRequired:
    if ctx.input_responses is None:
        return InputRequired(input_requests={"name": {"method": "elicitation/create"}}, request_state="first")
    return f"{ctx.request_state}: {ctx.input_responses['name']['content']}"


@agent.tool("refuse")
async def refuse(ctx: CallContext, arguments: JsonObject) -> str:
    raise ProtocolFault(-32021, "your client cannot", {"required": ["sampling"]})


@agent.tool("reject")
async def reject(ctx: CallContext, arguments: JsonObject) -> str:
    raise Rejected("no such shelf")


@agent.tool("crash")
async def crash(ctx: CallContext, arguments: JsonObject) -> str:
    raise RuntimeError("the password is hunter2")


@agent.tool("act")
async def act(ctx: CallContext, arguments: JsonObject) -> str:
    await ctx.side_effect("write")
    return "written"


@agent.tool("wait")
async def wait(ctx: CallContext, arguments: JsonObject) -> str:
    await asyncio.Event().wait()
    return "never"


@agent.prompt("plain", "A plain prompt")
async def plain(ctx: ReadContext, arguments: dict[str, str]) -> str:
    return "say something"


@agent.prompt("letter", arguments=[{"name": "to", "required": True}, {"name": "tone"}])
async def letter(ctx: ReadContext, arguments: dict[str, str]) -> Sequence[JsonObject]:
    text = f"to {arguments['to']}, {arguments.get('tone', 'plainly')}"
    return [{"role": "assistant", "content": {"type": "text", "text": text}}]


@agent.resource("test://text", "text", mime_type="text/plain")
async def text(ctx: ReadContext, values: dict[str, str]) -> str:
    return "some text"


@agent.resource("test://bytes", "bytes", mime_type="image/png")
async def picture(ctx: ReadContext, values: dict[str, str]) -> bytes:
    return b"png"


@agent.resource("test://note/{id}/data", "note")
async def note(ctx: ReadContext, values: dict[str, str]) -> str:
    return f"note {values['id']}"


@agent.completion("letter")
async def complete_letter(ctx: ReadContext, argument: str, value: str) -> Sequence[str]:
    return [name for name in ("paris", "park", "rome") if name.startswith(value)] if argument == "to" else []


@agent.resource("test://never", "never")
async def never(ctx: ReadContext, values: dict[str, str]) -> str:
    await asyncio.Event().wait()
    return "never"


NOTHING = Reach({}, {}, lambda _server, _tool: False)
runtime = FunctionRuntime("fixture", agent, NOTHING.open)

type Method = Literal["prompts/get", "resources/read", "completion/complete"]


async def call(tool: str, events: Events | None = None, turn: Turn | None = None, **arguments: Any) -> Outcome:
    return await runtime.run_turn(turn or a_turn("fixture", tool, **arguments), events or Events())


async def read(method: Method, **params: object) -> JsonObject:
    return await runtime.read(AgentRead(team="demo", agent="fixture", method=method, params=params))


async def test_a_returned_text_is_a_result_with_one_text_block() -> None:
    assert text_of(await call("greet", name="you")) == "hello you"


async def test_a_turn_that_names_a_model_fails_with_unknown_model() -> None:
    turn = replace(a_turn("bench", "greet", name="Ada"), model="offline")
    outcome = await FunctionRuntime("bench", agent, NOTHING.open).run_turn(turn, Events())
    assert isinstance(outcome, Failed)
    assert outcome.code == "unknown_model"


async def test_progress_log_messages_and_the_structured_result_are_passed_on() -> None:
    events = Events()
    outcome = await call("count", events)
    assert isinstance(outcome, Completed)
    assert outcome.result.structured == {"count": 3}
    assert [event.progress for event in events.of(Progress)] == [0, 50, 100]
    assert [event.level for event in events.of(LogMessage)] == ["info", "debug"]


async def test_log_messages_below_the_callers_level_are_dropped() -> None:
    events, turn = Events(), a_turn("fixture", "count")
    client = turn.client.model_copy(update={"log_level": "info"})
    await call("count", events, Turn(turn.turn_id, "demo", "fixture", "count", {}, 1, 30.0, client))
    assert [event.level for event in events.of(LogMessage)] == ["info"]


async def test_a_tool_that_needs_input_is_called_again_with_it() -> None:
    first = await call("ask")
    assert isinstance(first, NeedsInput)
    assert first.ask.request_state == "first"
    turn = a_turn("fixture", "ask")
    again = Turn(
        turn.turn_id, "demo", "fixture", "ask", {}, 1, 30.0, turn.client,
        input_responses={"name": {"content": "Ada"}}, request_state="first",
    )  # fmt: skip
    assert text_of(await call("ask", turn=again)) == "first: Ada"


async def test_a_protocol_fault_becomes_a_protocol_error() -> None:
    outcome = await call("refuse")
    assert isinstance(outcome, Failed)
    assert (outcome.protocol_code, outcome.data) == (-32021, {"required": ["sampling"]})


async def test_an_error_with_a_message_for_the_caller_is_a_tool_error() -> None:
    outcome = await call("reject")
    assert isinstance(outcome, Completed)
    assert outcome.result.is_error
    assert "no such shelf" in text_of(outcome)


async def test_a_crash_is_a_tool_error_without_the_text_of_the_exception() -> None:
    outcome = await call("crash")
    assert isinstance(outcome, Completed)
    assert outcome.result.is_error
    assert "hunter2" not in text_of(outcome)


async def test_a_side_effect_is_logged_first_and_not_executed_when_superseded() -> None:
    events = Events()
    assert text_of(await call("act", events)) == "written"
    assert [event.tool for event in events.of(ToolStarted)] == ["write"]
    with pytest.raises(Superseded):
        await call("act", Events(superseded=True))


async def test_a_function_that_exceeds_the_turns_time_fails_with_turn_timeout() -> None:
    outcome = await call("wait", turn=a_turn("fixture", "wait", remaining=0.05))
    assert isinstance(outcome, Failed)
    assert outcome.code == "turn_timeout"


async def test_an_unknown_tool_is_refused() -> None:
    assert getattr(await call("nothing"), "code", None) == "invalid_arguments"


async def test_progress_that_is_no_number_fails_the_call_and_is_not_published() -> None:
    events = Events()
    outcome = await call("lost", events)
    assert isinstance(outcome, Completed)
    assert outcome.result.is_error
    assert events.of(Progress) == []


async def test_prompts_are_answered_in_the_format_of_mcp() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "say something"}}
    assert await read("prompts/get", name="plain") == {"description": "A plain prompt", "messages": [message]}
    answer = await read("prompts/get", name="letter", arguments={"to": "you"})
    assert answer["messages"][0]["content"]["text"] == "to you, plainly"


async def test_a_prompt_without_its_required_argument_is_refused() -> None:
    with pytest.raises(Rejected) as caught:
        await read("prompts/get", name="letter")
    assert caught.value.facts["protocol_code"] == -32602


async def test_resources_are_read_as_text_bytes_or_by_template() -> None:
    assert await read("resources/read", uri="test://text") == {
        "contents": [{"uri": "test://text", "mimeType": "text/plain", "text": "some text"}]
    }
    (content,) = (await read("resources/read", uri="test://bytes"))["contents"]
    assert base64.b64decode(content["blob"]) == b"png"
    (content,) = (await read("resources/read", uri="test://note/a%20b/data"))["contents"]
    assert content == {"uri": "test://note/a%20b/data", "text": "note a b"}


async def test_a_read_that_takes_too_long_is_unavailable() -> None:
    question = AgentRead(team="demo", agent="fixture", method="resources/read", params={"uri": "test://never"})
    with pytest.raises(Unavailable):
        await replace(runtime, read_seconds=0.05).read(question)


async def test_completions_come_from_the_function_registered_for_the_prompt() -> None:
    answer = await read(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "letter"},
        argument={"name": "to", "value": "par"},
    )
    assert answer == {"completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}}
    empty = await read("completion/complete", ref={"type": "ref/prompt", "name": "plain"}, argument={"name": "x"})
    assert empty["completion"]["values"] == []


@pytest.mark.parametrize(
    ("method", "params"), [("prompts/get", {"name": "none"}), ("resources/read", {"uri": "test://none"})]
)
async def test_an_unknown_prompt_or_resource_is_not_found(method: Method, params: dict[str, object]) -> None:
    with pytest.raises(NotFound):
        await read(method, **params)


def test_a_tool_name_can_be_registered_only_once() -> None:
    twice = FunctionAgent()
    twice.tool("a")(greet)
    with pytest.raises(Rejected):
        twice.tool("a")(greet)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("a://{x}/b", "a://1/b", {"x": "1"}),
        ("a://{x}/b", "a://1/2/b", None),
        ("a://{+x}", "a://1/2", {"x": "1/2"}),
        ("a://fixed", "a://fixed", {}),
        ("a://{x}", "a://", None),
    ],
)
def test_uri_templates_match_as_in_rfc_6570(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


MODULE = """
from agent_worker.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()


@agent.tool("echo", "Echo", annotations={"readOnlyHint": True})
async def echo(ctx: CallContext, arguments: JsonObject) -> str:
    return "echo"
"""
AGENTS = """
name: demo
agents:
  tools: {kind: function, module: tools.py}
  broken: {kind: function, module: broken.py}
"""


async def test_a_function_agent_of_a_folder_is_hosted_and_a_broken_one_reported(tmp_path: Path) -> None:
    team = await a_team(tmp_path, {"agents.yaml": AGENTS, "tools.py": MODULE, "broken.py": "agent = 1 / 0\n"})
    (hosted,) = team.agents
    assert [tool.name for tool in hosted.definition.tools] == ["echo"]
    assert hosted.definition.tools[0].annotations == {"readOnlyHint": True}
    assert text_of(await hosted.runtime.run_turn(a_turn("tools", "echo"), Events())) == "echo"
    assert team.failed == {"broken": "its module could not be loaded: ZeroDivisionError"}


async def test_an_agent_of_several_files_is_reloaded_as_a_whole(tmp_path: Path) -> None:
    files = {"agents.yaml": "name: demo\nagents: {tools: {kind: function, module: tools/__init__.py}}\n"}
    files["tools/__init__.py"] = "from .echo import agent\n"
    (tmp_path / "tools").mkdir()
    (before,) = (await a_team(tmp_path, files | {"tools/echo.py": MODULE})).agents
    (after,) = (await a_team(tmp_path, files | {"tools/echo.py": MODULE.replace('"echo"', '"say"')})).agents
    assert [tool.name for tool in before.definition.tools] == ["echo"]
    assert [tool.name for tool in after.definition.tools] == ["say"]


def test_hosting_functions_imports_no_llm_library() -> None:
    program = "import sys, agent_worker.teams\n"
    program += "import pallas_hosting.functions.agent, pallas_hosting.functions.runtime\n"
    program += "print([name for name in ('pydantic_ai', 'mcp', 'openai') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
