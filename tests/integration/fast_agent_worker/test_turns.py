"""A team of the upstream Pallas, unchanged, as its callers see it."""

import json
from asyncio.subprocess import DEVNULL, create_subprocess_exec
from pathlib import Path

import pytest
from mcp_types import TextContent
from tests.conftest import Connecting
from tests.integration.fast_agent_worker.anthropic_model import AnthropicModel
from tests.integration.fast_agent_worker.stage import TEAM, Stage, python
from tests.integration.real_parts import until

from pallas_bus import kv
from pallas_contracts.catalog import WORKERS
from pallas_contracts.turns import ToolStarted
from pallas_turns.history.turns import read_turn

python()

SERVER = Path(__file__).parent / "stock" / "serve.py"
BALANCE = '***CALL_TOOL ledger__balance {"account": "alice"}'


async def test_the_tool_is_that_of_the_interface(stage: Stage) -> None:
    async with stage.client("harper") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed["harper"].input_schema["properties"]) == {"message", "images", "history", "conversation_id"}
        answer = await client.call_tool("send_message", {"message": "hello"})
    assert isinstance(answer.content[0], TextContent)
    assert answer.content[0].text == "hello"


async def test_a_tool_of_a_server_is_called_with_the_progress_of_the_interface(stage: Stage) -> None:
    answer = await stage.call("harper", BALANCE)
    assert json.loads(answer.text)["result"] == "alice: 42"
    assert answer.messages == [
        "harper step 1 (llm)",
        "harper step 2 (tool)",
        "ledger/balance: started",
        "ledger/balance: completed",
        "harper step 3 (llm)",
    ]
    assert stage.called()[-1] == "balance alice"


async def test_a_server_whose_process_has_ended_is_started_again_for_the_next_turn(stage: Stage) -> None:
    answer = await stage.call("harper", "***CALL_TOOL ledger__leave {}")
    assert "ledger/leave: failed" in answer.messages
    assert "alice: 42" in (await stage.call("harper", BALANCE)).text


async def test_a_server_that_was_not_there_at_the_start_is_used_when_it_is(stage: Stage) -> None:
    ask = '***CALL_TOOL away__first {"text": "x"}'
    assert "Tool 'away__first' is not available" in (await stage.call("harper", ask)).text
    process = await create_subprocess_exec(python(), SERVER, str(stage.away), stdout=DEVNULL, stderr=DEVNULL)

    async def used() -> bool:
        return "it was given x" in (await stage.call("harper", ask)).text

    try:
        await until(used)
    finally:
        process.kill()
        await process.wait()


async def test_an_agent_whose_model_cannot_be_called_says_so_before_it_is_called(stage: Stage, bus: Connecting) -> None:
    connection = await bus("health-monitor", url=stage.url)
    [presence] = (await kv.snapshot(connection, WORKERS)).values()
    assert presence.failed["kottos.unknown"] == "agent 'unknown': fast-agent does not know the model 'no-such-model'"
    assert presence.troubles["kottos.keyless"].reason.startswith("no key for model provider groq")


@pytest.mark.parametrize("name", ["ledger__pay", "pay"])
async def test_what_the_folder_says_of_a_tool_holds_also_if_the_model_leaves_its_server_out(
    stage: Stage, bus: Connecting, name: str
) -> None:
    answer = await stage.call("clerk", f'***CALL_TOOL {name} {{"account": "alice"}}')
    assert "ledger/pay: started" in answer.messages
    history = await read_turn(await bus("agent-gateway", url=stage.url), answer.turn)
    assert history is not None
    started = [it for it in history.attempts[1].in_order() if isinstance(it, ToolStarted)]
    assert [(it.server, it.tool, it.safe) for it in started] == [("ledger", "pay", True)]


async def test_a_tool_that_fails_is_the_models_business(stage: Stage) -> None:
    answer = await stage.call("harper", "***CALL_TOOL ledger__refuse {}")
    assert "ledger/refuse: failed" in answer.messages
    assert not answer.result.is_error


async def test_a_sub_agent_is_a_tool_of_its_name(stage: Stage) -> None:
    inner = json.dumps({"message": BALANCE})
    answer = await stage.call("harper", f"***CALL_TOOL agent__research {inner}")
    assert "alice: 42" in answer.text
    assert [message for message in answer.messages if message and "/" in message] == [
        "research/research__research: started",
        "ledger/balance: started",
        "ledger/balance: completed",
        "research/research__research: completed",
    ]


async def test_an_agent_of_the_folder_that_is_named_as_a_server_is_called_in_the_same_turn(stage: Stage) -> None:
    answer = await stage.call("chief", f"***CALL_TOOL research__research {json.dumps({'message': BALANCE})}")
    assert "alice: 42" in answer.text
    assert answer.messages[1:4] == [
        "chief step 2 (tool)",
        "research/research__research: started",
        "research step 1 (llm)",
    ]


async def test_agents_of_three_modules_that_name_each_other_as_servers_share_a_turn(stage: Stage) -> None:
    inner = f"***CALL_TOOL research__research {json.dumps({'message': BALANCE})}"
    answer = await stage.call("chief", f"***CALL_TOOL deputy__deputy {json.dumps({'message': inner})}")
    assert "alice: 42" in answer.text
    assert [message for message in answer.messages if message and "/" in message] == [
        "deputy/deputy__deputy: started",
        "research/research__research: started",
        "ledger/balance: started",
        "ledger/balance: completed",
        "research/research__research: completed",
        "deputy/deputy__deputy: completed",
    ]


async def test_an_agent_that_admits_only_some_callers_is_not_called_in_a_turn_of_another_agent(stage: Stage) -> None:
    assert "an agent of the folder is called over its address" in stage.worker.log.read_text("utf-8")
    answer = await stage.call("chief", '***CALL_TOOL guarded__guarded {"message": "let me in"}')
    assert "guarded/guarded: failed" in answer.messages
    assert "let me in" not in answer.text
    assert await stage.counted("pallas_model_calls_total", agent="short") == 0


async def test_a_workflow_reports_its_members(stage: Stage) -> None:
    answer = await stage.call("pipeline", "hello")
    assert answer.text == "hello"
    assert answer.messages == [
        "digest/research: started",
        "research step 1 (llm)",
        "digest/research: completed",
        "digest/short: started",
        "short step 1 (llm)",
        "digest/short: completed",
    ]


async def test_a_card_is_an_agent(stage: Stage) -> None:
    answer = await stage.call("clerk", BALANCE)
    assert "alice: 42" in answer.text


async def test_calls_of_anthropics_models_share_a_connection_without_cookies(
    stage: Stage, claude: AnthropicModel
) -> None:
    assert [(await stage.call("claude", "hello")).text for _ in range(3)] == ["hello"] * 3
    assert (len(claude.connected), claude.cookies) == (1, [])


@pytest.mark.parametrize("agent", ["harper", "pipeline"])
async def test_the_history_is_the_callers_and_nobody_elses(stage: Stage, agent: str) -> None:
    rows = [{"role": "user", "content": "a secret"}, {"role": "robot"}, {"role": "user", "content": "another"}]
    with_history = await stage.call(agent, "hello", history=rows)
    without = await stage.call(agent, "hello")
    assert (with_history.text, without.text) == ("a secret\nanother\nhello", "hello")


async def test_agents_that_cannot_be_imported_are_reported_and_the_others_work(stage: Stage) -> None:
    log = stage.worker.log.read_text("utf-8")
    assert "there is no module 'no_such_package'" in log
    assert "put that behind: if __name__ == " in log
    assert "Traceback" not in (await stage.call("harper", "hello")).text


async def test_servers_work_in_the_teams_folder_and_the_worker_leaves_it_as_it_is(stage: Stage) -> None:
    await stage.call("harper", '***CALL_TOOL ledger__save {"name": "out.txt", "text": "kept"}')
    assert (stage.folder / "out.txt").read_text("utf-8") == "kept"
    (stage.folder / "out.txt").unlink()
    assert files_of(stage.folder) == files_of(TEAM)
    assert "a-team-jwt" not in stage.worker.log.read_text("utf-8")


def files_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder, without bytecode of these tests."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
