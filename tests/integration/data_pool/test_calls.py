"""Calls of agents over WebSockets: what is sent, what may come back, and what becomes of the turn."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from tests.integration.agent_worker.lab import Followed
from tests.integration.data_pool.lab import Lab, Message, a_registration, nested
from tests.requirements import requirement
from tests.waiting import eventually, soon
from websockets.exceptions import ConnectionClosed

from pallas_contracts.turns import Fault, Result, ToolCompleted, ToolFailed, ToolStarted
from pallas_turns.claims import request_cancel

STRAY = "pallas_pool_stray_answers_total"


def result_of(turn: Followed) -> Result:
    """The answer of a turn that has ended with one."""
    [result] = [message for message in turn.messages if isinstance(message, Result)]
    return result


@requirement("D-5.1")
@pytest.mark.parametrize("form", [a_registration, nested])
async def test_an_agent_registers_in_both_forms_and_executes(lab: Lab, form: Any) -> None:
    pool = await lab.pool(gateway_url="https://pallas.example/")
    agent = await lab.connect(pool)
    answer = await agent.ask("server.register", form(lab.agent, heartbeat_interval=60))
    assert answer == {
        "jsonrpc": "2.0",
        "id": "a1",
        "result": {
            "agent_id": lab.agent,
            "registered": True,
            "team": "data",
            "tools": ["double"],
            "heartbeat_interval": 60.0,
            "mcp": f"https://pallas.example/teams/data/mcp/{lab.agent}",
        },
    }
    turn = await lab.call(number=21)
    call = await agent.double()
    params = call.pop("params")
    assert call == {"jsonrpc": "2.0", "id": 1, "method": "agent.execute"}
    assert {name: params[name] for name in ("agent_id", "function", "input")} == {
        "agent_id": lab.agent,
        "function": "double",
        "input": {"number": 21},
    }
    assert params["meta"]["task_id"] == params["meta"]["turn_id"] == turn.request.turn_id
    assert 0 < params["meta"]["timeout"] <= 60
    assert (await turn.outcome()).status == "completed"
    assert result_of(turn).structured == {"doubled": 42}
    assert json.loads(turn.text) == {"doubled": 42}
    logged = [type(message) for message in turn.messages if isinstance(message, ToolStarted | ToolCompleted)]
    assert logged == [ToolStarted, ToolCompleted]


async def test_an_agent_of_the_dialect_without_ids_is_called_one_call_at_a_time(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool(), strict=False, numbered=False)
    assert (await agent.ask("server.register", nested(lab.agent)))["result"]["registered"] is True
    turns = [await lab.call(number=number) for number in (1, 2, 3)]
    for _ in turns:
        call = await agent.double()
        assert "jsonrpc" not in call
    for number, turn in zip((1, 2, 3), turns, strict=True):
        await turn.outcome()
        assert result_of(turn).structured == {"doubled": 2 * number}


async def test_calls_of_a_numbered_agent_are_under_way_at_once_and_may_end_in_any_order(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent)
    turns = [await lab.call(number=number) for number in range(20)]
    calls = [await agent.hear() for _ in turns]
    for call in reversed(calls):
        await agent.answer(call, doubled=2 * call["params"]["input"]["number"])
    for number, turn in enumerate(turns):
        await turn.outcome()
        assert result_of(turn).structured == {"doubled": 2 * number}


async def test_an_answer_that_is_no_object_is_wrapped(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent, schema={"double": {"input": {"number": "int"}, "output": "list[int]"}})
    turn = await lab.call()
    call = await agent.hear()
    await agent.say({"jsonrpc": "2.0", "id": call["id"], "result": [1, 2]})
    await turn.outcome()
    assert result_of(turn).structured == {"result": [1, 2]}
    assert turn.text == "[1, 2]"
    definition = await lab.definition()
    assert definition is not None
    assert definition.tools[0].meta == {"pallas/wrapped": True}


@requirement("D-6.4")
async def test_an_error_of_the_agent_is_a_tool_error_with_its_code(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent)
    turn = await lab.call()
    call = await agent.hear()
    error = {"code": -32000, "message": "no data for AAPL", "data": {"agent_id": lab.agent}}
    await agent.say({"jsonrpc": "2.0", "id": call["id"], "error": error})
    assert (await turn.outcome()).status == "completed"
    assert result_of(turn).is_error
    assert turn.text == "no data for AAPL"
    assert result_of(turn).meta == {"pallas/rpc-error": error}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":{"doubled":"x"}}', "does not fit its schema"),
        ('{"jsonrpc":"2.0","id":1,"result":[]}', "must be an object"),
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', "either a result or an error"),
        ('{"jsonrpc":"2.0","id":1,"error":"oops"}', "error must be an object"),
        ('{"jsonrpc":"2.0","id":1,"result":{"doubled":1,"doubled":2}}', "the key 'doubled' twice"),
        ('{"jsonrpc":"2.0","id":1,"result":{"doubled":NaN}}', "NaN is not JSON"),
        ('{"jsonrpc":"2.0","id":1,"result":{"doubled":"\\ud800"}}', "lone surrogate"),
        ('{"jsonrpc":"1.0","id":1,"result":{"doubled":2}}', 'jsonrpc must be "2.0"'),
        ('{"jsonrpc":"2.0","id":1}', "neither a result nor an error"),
        ('{"jsonrpc":"2.0","id":1,"result":' + '{"a":' * 200 + "1" + "}" * 201, "nested too deeply"),
        ('{"jsonrpc":"2.0","id":1,"result":[' + "0," * 200_000 + "0]}", "more than 200,000 values"),
        ('{"jsonrpc":"2.0","result":[' + "0," * 200_000 + '0],"id":1}', "more than 200,000 values"),
    ],
    ids=[
        "unfitting",
        "no object",
        "both",
        "bad error",
        "duplicate key",
        "nan",
        "surrogate",
        "version",
        "empty",
        "deep",
        "many values",
        "many values before the id",
    ],
)
async def test_a_malformed_answer_fails_its_call_with_the_reason(lab: Lab, answer: str, reason: str) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent)
    turn = await lab.call()
    assert (await agent.hear())["id"] == 1
    await agent.say(answer)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code) == ("failed", "invalid_answer")
    assert reason in turn.text
    assert [message.code for message in turn.messages if isinstance(message, ToolFailed)] == ["invalid_answer"]
    again = await lab.call()
    assert (await agent.double())["id"] == 2, "nothing else was sent"
    assert (await again.outcome()).status == "completed"


async def test_answers_that_belong_to_no_call_are_counted_and_disturb_nobody(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.connect(pool)
    await agent.register(lab.agent)
    turn = await lab.call()
    call = await agent.hear()
    await agent.say({"jsonrpc": "2.0", "id": 99, "result": {"doubled": 0}})
    await agent.say({"jsonrpc": "2.0", "id": "1", "result": {"doubled": 0}})
    await agent.answer(call, doubled=42)
    await agent.answer(call, doubled=43)
    await agent.say({"result": {"doubled": 44}})
    await agent.say("{")
    while "error" not in (await agent.hear()):
        pass
    await turn.outcome()
    assert result_of(turn).structured == {"doubled": 42}
    kinds = {kind: pool.counted(STRAY, kind=kind) for kind in ("again", "late", "unknown", "unreadable")}
    assert kinds == {"again": 1, "late": 0, "unknown": 3, "unreadable": 1}


@requirement("D-4.3")
async def test_a_call_that_takes_too_long_ends_and_the_agent_is_told(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.connect(pool)
    await agent.register(lab.agent, constraints={"timeout": 0.3})
    turn = await lab.call()
    call = await agent.hear()
    assert await agent.hear() == {"jsonrpc": "2.0", "method": "agent.cancel", "params": {"id": call["id"]}}
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code) == ("failed", "turn_timeout")
    await agent.answer(call, doubled=42)
    await eventually(lambda: pool.counted(STRAY, kind="late") == 1)
    turn = await lab.call()
    await agent.double()
    assert (await turn.outcome()).status == "completed"


async def test_a_cancelled_call_is_cancelled_at_the_agent(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent)
    turn = await lab.call()
    call = await agent.hear()
    await request_cancel(lab.bus, turn.ref, "enough")
    assert await agent.hear() == {"jsonrpc": "2.0", "method": "agent.cancel", "params": {"id": call["id"]}}
    assert (await turn.outcome()).status == "cancelled"


async def test_an_agent_without_ids_that_is_too_slow_is_disconnected(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool(), strict=False, numbered=False)
    await agent.ask("server.register", a_registration(lab.agent, constraints={"timeout": 0.3}))
    turn = await lab.call()
    await agent.hear()
    assert (await turn.outcome()).code == "turn_timeout"
    with pytest.raises(ConnectionClosed):
        await agent.hear()


async def test_a_connection_that_breaks_during_a_call_leaves_its_effect_unknown(lab: Lab) -> None:
    agent = await lab.connect(await lab.pool())
    await agent.register(lab.agent)
    turn = await lab.call()
    await agent.hear()
    agent.socket.transport.abort()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.retryable) == ("failed", "agent_unreachable", False)
    assert "whether it took effect is unknown" in turn.text


async def test_an_idempotent_agent_is_called_again_when_it_is_back(lab: Lab) -> None:
    pool = await lab.pool()
    agent = await lab.connect(pool)
    await agent.register(lab.agent, constraints={"idempotent": True})
    turn = await lab.call()
    await agent.hear()
    agent.socket.transport.abort()
    agent = await lab.connect(pool)
    await agent.register(lab.agent, constraints={"idempotent": True})
    await agent.double()
    assert (await turn.outcome()).status == "completed"
    started = [message for message in turn.messages if isinstance(message, ToolStarted)]
    assert [message.safe for message in started] == [True, True]


async def test_of_two_programs_of_an_agent_the_newer_is_called_and_the_older_finishes_and_stands_by(lab: Lab) -> None:
    pool = await lab.pool()
    old = await lab.registered(pool)
    under_way = await lab.call()
    call = await old.hear()
    new = await lab.connect(pool)
    await new.register(lab.agent)
    turn = await lab.call()
    await new.double()
    assert (await turn.outcome()).status == "completed"
    await old.answer(call, doubled=42)
    assert (await under_way.outcome()).status == "completed"
    await new.socket.close()
    turn = await lab.call()
    await old.double()
    assert (await turn.outcome()).status == "completed"


async def test_several_agents_on_one_socket_and_on_others_do_not_notice_each_other(lab: Lab) -> None:
    pool = await lab.pool()
    shared, other = await lab.connect(pool), await lab.connect(pool)
    first, second, third = (f"{lab.agent}-{number}" for number in range(3))
    await shared.register(first)
    await shared.register(second)
    await other.register(third)
    turns = dict[str, Followed]()
    for lab.agent in (first, second, third):
        turns[lab.agent] = await lab.call()
    asked = {call["params"]["agent_id"]: call for call in [await shared.hear(), await shared.hear()]}
    assert asked.keys() == {first, second}
    # Ids are those of a connection: what another agent says about them has no effect.
    mine = await other.hear()
    await other.say({"jsonrpc": "2.0", "id": asked[second]["id"] + 1, "result": {"doubled": 0}})
    await other.answer(mine, doubled=3)
    await shared.answer(asked[second], doubled=2)
    await shared.answer(asked[first], doubled=1)
    for turn, doubled in zip(turns.values(), (1, 2, 3), strict=True):
        await turn.outcome()
        assert result_of(turn).structured == {"doubled": doubled}


async def test_an_agent_that_reads_nothing_is_disconnected_and_delays_nobody(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_pool.reaching.socket_calls.SEND_SECONDS", 0.5)
    pool = await lab.pool(pool_patience="0.5")
    stuck = await lab.connect(pool, max_queue=1, close_timeout=0.1)
    text: Message = {"double": {"input": {"number": "any"}, "output": {"doubled": "int"}}}
    await stuck.register(lab.agent, schema=text)
    stuck.socket.transport.pause_reading()
    turns = [await lab.call(number="x" * 2_000_000) for _ in range(8)]
    fine, lab.agent = await lab.connect(pool), f"{lab.agent}-fine"
    await fine.register(lab.agent)
    turn = await lab.call()
    await fine.double()
    assert (await turn.outcome()).status == "completed"
    codes = {(await turn.outcome()).code for turn in turns}
    assert codes == {"agent_unreachable"}


async def test_a_turn_of_a_function_that_the_agent_has_no_more_fails(lab: Lab) -> None:
    await lab.registered(await lab.pool())
    turn = await lab.call("halve", number=1)
    outcome = await turn.outcome()
    assert (outcome.code, turn.text) == ("invalid_arguments", f"The agent {lab.agent!r} has no function 'halve'.")
    assert isinstance(turn.messages[-2], Fault)


async def test_a_message_of_17_mib_closes_its_connection_alone(lab: Lab) -> None:
    pool = await lab.pool()
    agent, other = await lab.registered(pool), await lab.connect(pool)
    with suppress(ConnectionClosed):  # it may be closed before all is sent
        await other.say('"' + "x" * (17 * 1024 * 1024) + '"')
    await soon(other.socket.wait_closed())
    assert other.socket.close_code == 1009
    turn, _ = await soon(asyncio.gather(lab.call(), agent.double()))
    assert (await turn.outcome()).status == "completed"
