"""Downstream servers that are not quite right: their agents keep what can be used, and health has the rest."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.integration.agent_worker.odd_mcp import ECHO, Json, OddMcp, odd_mcp, text, zipped
from tests.runtimes import Events, a_team, a_turn, text_of
from tests.waiting import PATIENCE, eventually

from pallas_contracts.turns import ToolFailed
from pallas_hosting.folders import HostedTeam

CALL = '/tool odd/echo {"text": "x"}'


@pytest.fixture
def odd() -> Generator[OddMcp]:
    with odd_mcp() as server:
        yield server


@pytest.fixture
async def team(tmp_path: Path, odd: OddMcp) -> AsyncGenerator[HostedTeam]:
    config = f"default_model: offline\nmcp:\n  servers:\n    odd:\n      url: {odd.url}\n"
    agents = "name: demo\nagents:\n  harper: {servers: [odd]}\n  above: {depends_on: [harper]}\n"
    team = await a_team(tmp_path, {"agents.yaml": agents, "fastagent.config.yaml": config})
    yield team
    await team.shared.close()


async def ask(team: HostedTeam, message: str, events: Events | None = None) -> str:
    harper = next(agent.runtime for agent in team.agents if agent.definition.agent == "harper")
    return text_of(await harper.run_turn(a_turn(message=message), events or Events()))


BAD_TOOLS: list[Json] = [
    {"name": "bad"},
    {"name": "bad", "inputSchema": {"type": "string"}},
    {"name": "bad", "inputSchema": {"type": "object"}, "icons": [{"mimeType": "image/png"}]},
    {"inputSchema": {"type": "object"}},
    {**ECHO, "name": "n" * 300},
]


@pytest.mark.parametrize(
    "bad", BAD_TOOLS, ids=["no schema", "no object", "an icon without address", "no name", "a long name"]
)
async def test_a_tool_that_cannot_be_used_is_left_out_by_name_and_the_others_stay(
    team: HostedTeam, odd: OddMcp, bad: Json
) -> None:
    odd.pages = lambda _cursor: {"tools": [bad, ECHO]}
    assert await ask(team, CALL) == "echo: x"
    lacks = team.shared.lacks()
    assert set(lacks) == {"harper", "above"}
    assert f"odd has tools that cannot be used: {bad.get('name', 'a tool without a name')[:256]} (" in lacks["harper"]


@pytest.mark.parametrize("schema", [{}, {"anyOf": [{"type": "object"}]}])
async def test_a_schema_that_does_not_say_that_arguments_are_an_object_can_be_used(
    team: HostedTeam, odd: OddMcp, schema: Json
) -> None:
    odd.pages = lambda _cursor: {"tools": [{"name": "echo", "inputSchema": schema}]}
    assert await ask(team, CALL) == "echo: x"
    assert team.shared.lacks() == {}


@pytest.mark.parametrize("cursor", ["", "8"])
async def test_a_cursor_that_does_not_advance_ends_the_list(team: HostedTeam, odd: OddMcp, cursor: str) -> None:
    odd.pages = lambda _cursor: {"tools": [ECHO], "nextCursor": cursor}
    assert await ask(team, CALL) == "echo: x"
    assert odd.asked.count("tools/list") <= 2


async def test_a_list_without_end_is_cut_and_health_says_so(team: HostedTeam, odd: OddMcp) -> None:
    def page(cursor: str | None) -> Json:
        first = int(cursor or 0)
        tools = [ECHO, *({**ECHO, "name": f"t{number}"} for number in range(first, first + 500))]
        return {"tools": tools, "nextCursor": str(first + 500)}

    odd.pages = page
    assert await ask(team, CALL) == "echo: x"
    assert odd.asked.count("tools/list") <= 20
    assert "lists too many tools" in team.shared.lacks()["harper"]


@pytest.mark.parametrize("status", [400, 401, 404, 410])
async def test_a_server_that_has_forgotten_the_session_is_called_in_a_new_one(
    team: HostedTeam, odd: OddMcp, status: int
) -> None:
    odd.forgets = status
    assert await ask(team, CALL) == "echo: x"
    odd.sessions.clear()
    assert await ask(team, CALL) == "echo: x"
    assert odd.asked.count("initialize") == 2
    assert team.shared.lacks() == {}


async def test_a_server_that_refuses_a_session_with_500_is_called_in_a_new_one_by_the_next_turn(
    team: HostedTeam, odd: OddMcp
) -> None:
    odd.forgets = 500
    assert await ask(team, CALL) == "echo: x"
    odd.sessions.clear()
    events = Events()
    await ask(team, CALL, events)
    assert len(events.of(ToolFailed)) == 1, "it may have made the call, so that is not repeated"
    assert await ask(team, CALL) == "echo: x"


async def test_a_call_that_is_refused_ends_no_call_that_is_under_way(team: HostedTeam, odd: OddMcp) -> None:
    begun, go = threading.Event(), threading.Event()

    def answer(_name: str, given: Json) -> Json | bytes:
        if given["text"] != "slow":
            return b"no"
        begun.set()
        go.wait(PATIENCE)
        return text("slow is done")

    odd.call, odd.status = answer, 400
    slow = asyncio.create_task(ask(team, CALL.replace('"x"', '"slow"')))
    await asyncio.to_thread(begun.wait, PATIENCE)
    assert "failed" in await ask(team, CALL)
    go.set()
    assert await slow == "slow is done"
    assert odd.asked.count("initialize") == 1


async def test_a_list_that_failed_is_asked_for_again_without_a_turn(
    team: HostedTeam, odd: OddMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_worker.downstream.server._FIRST_PAUSE", 0.05)
    odd.pages = lambda _cursor: {"error": {"code": -32603, "message": "not yet"}}
    assert "failed" in await ask(team, CALL)
    assert "odd does not list its tools (since " in team.shared.lacks()["harper"]
    odd.pages = lambda _cursor: {"tools": [ECHO]}
    await eventually(lambda: team.shared.lacks() == {})
    assert await ask(team, CALL) == "echo: x"


async def test_an_error_with_the_code_of_a_lost_connection_is_one_of_the_tool(team: HostedTeam, odd: OddMcp) -> None:
    odd.call = lambda _name, _given: {"error": {"code": -32000, "message": "no such customer"}}
    events = Events()
    assert "no such customer" in await ask(team, CALL, events)
    assert [event.code for event in events.of(ToolFailed)] == ["tool_error"]
    assert odd.asked.count("initialize") == 1


async def test_tools_whose_names_become_the_same_can_all_be_called(team: HostedTeam, odd: OddMcp) -> None:
    long = "create_a_page_with_attachments_and_permissions_for_all_readers_of_"
    names = [f"{long}a", f"{long}b", "page.delete", "page_delete"]
    odd.pages = lambda _cursor: {"tools": [{**ECHO, "name": name} for name in names]}
    offered = (await ask(team, "/tool none/none")).partition("Available tools: ")[2].strip(" .'").split("', '")
    assert len(offered) == len(names)
    answers = await asyncio.gather(*(ask(team, f'/tool {name} {{"text": "x"}}') for name in offered))
    assert sorted(answers) == sorted(f"{name}: x" for name in names)
    assert await ask(team, '/tool odd/page_delete {"text": "x"}') == "page_delete: x", "its name needs no change"


ANSWERS: dict[str, tuple[Json, str]] = {
    "blank text": (text(" ", structuredContent={"a": "ü"}), '{"a": "ü"}'),
    "an unknown block": ({"content": [{"type": "json", "json": 1}]}, '{"type": "json", "json": 1}'),
    "an output schema that cannot be resolved": (text("done", structuredContent={"r": "x"}), "done"),
    "structured content that does not fit": (text("done", structuredContent={"r": 1}), "done"),
    "no structured content": (text("done"), "done"),
    "halves of characters": (
        text("\ud83d \\ud83d 😀 " + "\ude00" * 100_000),
        "\ufffd \\ud83d 😀 " + "\ufffd" * 100_000,
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_the_result_of_a_call_that_was_made_reaches_the_model(team: HostedTeam, odd: OddMcp, case: str) -> None:
    schema: Json = {"type": "object", "properties": {"r": {"$ref": "https://no.invalid/schema"}}}
    odd.pages = lambda _cursor: {"tools": [{**ECHO, "outputSchema": schema}]}
    given, wanted = ANSWERS[case]
    odd.call = lambda _name, _given: given
    events = Events()
    assert await ask(team, CALL, events) == wanted
    assert events.of(ToolFailed) == []


@pytest.mark.parametrize(("kind", "why"), [("zipped", "is compressed"), ("huge", "is larger than 16 MiB")])
async def test_an_answer_without_bounds_fails_its_call_and_nothing_else(
    team: HostedTeam, odd: OddMcp, kind: str, why: str
) -> None:
    ends = json.dumps({"jsonrpc": "2.0", "id": 3, "result": text("fine")}).encode()
    odd.call = lambda _name, _given: zipped(200) if kind == "zipped" else b" " * (20 * 1024 * 1024) + ends
    odd.headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if kind == "zipped" else {})
    events = Events()
    assert why in await ask(team, CALL, events)
    assert [event.code for event in events.of(ToolFailed)] == ["tool_error"]
    odd.call = lambda _name, _given: text("fine")
    assert await ask(team, CALL) == "fine"


LATIN = """
import json, sys
said = False
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, answer = asked["method"], {"error": {"code": -32601, "message": "no"}}
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "l", "version": "1"}}
        answer = {"result": {"protocolVersion": "2025-06-18", **about}}
    elif method == "tools/list":
        answer = {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}
    elif method == "tools/call":
        if not said:
            said = True
            sys.stdout.buffer.write("journ\\u00e9e\\n".encode("latin-1"))
        answer = {"result": {"content": [{"type": "text", "text": "half: \\ud83d"}]}}
    sys.stdout.buffer.write((json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\\n").encode())
    sys.stdout.buffer.flush()
"""


async def a_stdio_team(tmp_path: Path, program: str) -> HostedTeam:
    (tmp_path / "odd.py").write_text(program)
    server = f"command: {sys.executable}\n      args: [./odd.py]"
    config = f"default_model: offline\nmcp:\n  servers:\n    odd:\n      {server}\n"
    files = {"agents.yaml": "name: demo\nagents:\n  harper: {servers: [odd]}\n", "fastagent.config.yaml": config}
    return await a_team(tmp_path, files)


async def test_a_stdio_server_that_writes_what_is_no_utf_8_stays_usable(tmp_path: Path) -> None:
    team = await a_stdio_team(tmp_path, LATIN)
    try:
        for _ in range(2):
            assert await ask(team, CALL) == "half: \ufffd"
        assert list(team.shared.stdio_health().values()) == [None]
        assert team.shared.lacks() == {}
    finally:
        await team.shared.close()


@pytest.mark.parametrize("line", ["b'x' * 40_000_000", "b'{},' * 200_000"], ids=["long", "many values"])
async def test_a_stdio_server_that_writes_a_line_without_end_is_started_again(tmp_path: Path, line: str) -> None:
    odd, once = f"sys.stdout.buffer.write({line}); sys.stdout.flush(); time.sleep(60)", tmp_path / "once"
    endless = f"if not os.path.exists({str(once)!r}): open({str(once)!r}, 'w').close(); {odd}"
    program = LATIN.replace('"tools/call":\n', f'"tools/call":\n        {endless}\n')
    team = await a_stdio_team(tmp_path, f"import os, time\n{program}")
    try:
        events = Events()
        await ask(team, CALL, events)
        assert len(events.of(ToolFailed)) == 1
        assert await ask(team, CALL) == "half: \ufffd"
    finally:
        await team.shared.close()
