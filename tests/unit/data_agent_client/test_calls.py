"""Calls of an agent that was written with the client, from the pool's side."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.requirements import requirement
from tests.unit.data_agent_client.pool import SAMPLE, Pool, a_pool, a_program
from tests.waiting import eventually, soon


@pytest.fixture(scope="module")
async def pool() -> AsyncGenerator[Pool]:
    """A pool to which the sample is connected."""
    async with a_pool() as pool, a_program(str(SAMPLE), pool.url):
        await pool.both_registered()
        yield pool


async def test_an_answer_has_the_result_and_the_time_it_took(pool: Pool) -> None:
    answer = await pool.call("double", {"number": 21})
    assert answer["result"] == 42
    assert answer["jsonrpc"] == "2.0"
    assert answer["meta"]["status"] == "success"
    assert isinstance(answer["meta"]["execution_time_ms"], int)


async def test_objects_become_dataclasses_and_defaults_hold(pool: Pool) -> None:
    answer = await pool.call("greet", {"people": [{"name": "Ann", "age": 7}, {"name": "Bo"}]})
    assert answer["result"] == {"text": "Ann (7), Bo (0)", "loud": False}


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        ("double", {}, "Invalid params: number: Missing required argument"),
        ("double", {"number": 1, "extra": 2}, "Invalid params: extra: Unexpected keyword argument"),
        ("greet", {"people": [{"name": "Ann"}, {"age": 3}]}, "Invalid params: people.1.name: Field required"),
        ("double", None, "Invalid params: input: Arguments must be a tuple, list or a dictionary"),
        (
            "double",
            {"number": "one"},
            "Invalid params: number: Input should be a valid integer, unable to parse string as an integer",
        ),
    ],
    ids=["missing", "unknown", "nested", "no object", "no integer"],
)
async def test_a_wrong_argument_is_named(pool: Pool, function: str, given: Any, message: str) -> None:
    error = (await pool.call(function, given))["error"]
    assert (error["code"], error["message"]) == (-32602, message)
    assert error["data"]["faults"][0]["field"] in message


async def test_an_unknown_function_or_agent_is_not_found(pool: Pool) -> None:
    assert (await pool.call("halve", {}))["error"] == {
        "code": -32601,
        "message": "Method not found: halve",
        "data": {"agent_id": "sample", "function": "halve"},
    }
    assert (await pool.call("double", {}, agent="nobody"))["error"]["code"] == -32601


async def test_a_caller_reads_the_message_of_a_tool_error_and_of_no_other(pool: Pool) -> None:
    assert (await pool.call("refuse", {"reason": "not today"}))["error"]["message"] == "not today"
    failed = await pool.call("fail", {"secret": "hunter2"})
    assert (failed["error"]["code"], failed["error"]["message"]) == (-32000, "fail failed")
    assert "hunter2" not in str(failed)
    assert (await pool.call("not_json", {}))["error"]["message"] == "not_json failed"


async def test_what_no_reader_of_json_takes_is_mended_in_results(pool: Pool) -> None:
    whole = {"numbers": [1.5, None, None], "half \ufffd": ["\ufffd", "\U0001f600"]}
    assert (await pool.call("odd", {}))["result"] == whole


async def test_a_message_that_the_pool_cannot_read_ends_no_connection(pool: Pool) -> None:
    _, running = await pool.send("sample", "wait_a_bit", {})
    await pool.tell({"id": None, "error": {"code": -32700, "message": "Parse error"}})
    assert (await soon(running))["result"] == "done"
    assert pool.closed == []


async def test_a_function_knows_its_call_and_each_has_a_context_of_its_own(pool: Pool) -> None:
    assert (await pool.call("task", {}, turn_id="turn"))["result"] == {"task_id": "t", "turn_id": "turn"}
    first, second = [(await pool.call("remember", {}))["result"] for _ in range(2)]
    assert first == second, "the process is used again, the context is not"


async def test_calls_of_plain_functions_run_at_the_same_time(pool: Pool, tmp_path: Path) -> None:
    ends = {"folder": str(tmp_path)}
    answers = await asyncio.gather(
        pool.call("meet", {**ends, "name": "a", "other": "b"}), pool.call("meet", {**ends, "name": "b", "other": "a"})
    )
    assert [answer["result"] for answer in answers] == [None, None]


@requirement("D-4.3")
async def test_a_function_that_takes_too_much_memory_fails_and_the_next_call_does_not(pool: Pool) -> None:
    assert (await pool.call("eat", {"megabytes": 20}))["result"] == 20_000_000
    error = (await pool.call("eat", {"megabytes": 500}))["error"]
    assert (error["code"], error["message"]) == (-32000, "memory limit 128 MB")
    assert (await pool.call("eat", {"megabytes": 20}))["result"] == 20_000_000


async def test_a_function_that_takes_too_long_is_killed_and_those_behind_it_run(pool: Pool) -> None:
    late = await pool.send("hasty", "Wait", {"seconds": 60})
    next_one = await pool.send("hasty", "Wait", {"seconds": 0})
    error = (await soon(late[1]))["error"]
    assert (error["code"], error["message"]) == (-32001, "Wait timed out after 0.2 s")
    assert (await soon(next_one[1]))["result"] is None


async def test_a_cancelled_call_is_killed_with_the_programs_that_it_started(pool: Pool, tmp_path: Path) -> None:
    number, answer = await pool.send("sample", "sleep", {"folder": str(tmp_path)})
    await eventually((tmp_path / "pids").exists)
    pids = (tmp_path / "pids").read_text().split()
    assert all(map(_runs, pids))
    await pool.cancel(number)
    await eventually(lambda: not any(map(_runs, pids)))
    assert (await pool.call("double", {"number": 1}))["result"] == 2
    assert not answer.done(), "nobody waits for it"


async def test_a_process_that_ends_in_a_call_fails_it_and_is_replaced(pool: Pool, tmp_path: Path) -> None:
    crashed = [await pool.call("crash", {"folder": str(tmp_path)}) for _ in range(2)]
    assert [answer["error"]["message"] for answer in crashed] == ["crash failed"] * 2
    assert (await pool.call("double", {"number": 1}))["result"] == 2
    await eventually(lambda: not any(map(_runs, (tmp_path / "pids").read_text().split())))


async def test_an_answer_longer_than_a_message_may_be_is_an_error(pool: Pool) -> None:
    assert "exceeds 16 MiB" in (await pool.call("long", {"letters": 17 * 2**20}))["error"]["message"]
    assert len((await pool.call("long", {"letters": 2**20}))["result"]) == 2**20


async def test_heartbeats_come_at_the_interval_of_an_agent_that_has_one(pool: Pool) -> None:
    beats = [await soon(pool.beats.get()) for _ in range(3)]
    assert beats == [{"agent_id": "sample", "status": "active"}] * 3


def _runs(pid: str) -> bool:
    stat = Path("/proc", pid, "stat")
    return stat.exists() and ") Z" not in stat.read_text()
