"""How a program that hosts agents connects, registers, reconnects and ends."""

import signal
from pathlib import Path

import pytest
from tests.unit.data_agent_client.pool import SAMPLE, a_pool, a_program
from tests.waiting import eventually, soon

DIALECT = "https://json-schema.org/draft/2020-12/schema"


async def test_agents_register_as_the_contract_says() -> None:
    async with a_pool() as pool, a_program(str(SAMPLE), pool.url, "a-bearer"):
        sample, hasty = await pool.both_registered()
    assert pool.bearers == ["Bearer a-bearer"]
    assert {name: sample[name] for name in ("agent_id", "title", "resources", "heartbeat_interval")} == {
        "agent_id": "sample",
        "title": "Sample",
        "resources": ["a_source"],
        "heartbeat_interval": 0.05,
    }
    assert sample["constraints"] == {"timeout": 30, "memory": "128MB", "max_concurrency": 8}
    assert sample["schema"]["double"]["output"] == {"$schema": DIALECT, "type": "integer"}
    assert sample["descriptions"]["double"] == "Double a number."
    assert hasty == {
        "agent_id": "hasty",
        "tools": ["Wait"],
        "schema": {
            "Wait": {
                "input": {
                    "$schema": DIALECT,
                    "type": "object",
                    "properties": {"seconds": {"type": "number"}},
                    "required": ["seconds"],
                    "additionalProperties": False,
                },
                "output": {"$schema": DIALECT, "type": "null"},
            }
        },
        "descriptions": {"Wait": "Wait."},
        "constraints": {"timeout": 0.2, "max_concurrency": 1},
        "resources": [],
        "heartbeat_interval": None,
    }


async def test_a_broken_connection_is_opened_again_and_the_agents_register_again(tmp_path: Path) -> None:
    async with a_pool() as pool, a_program(str(SAMPLE), pool.url) as program:
        await pool.both_registered()
        await pool.send("sample", "end_when", {"folder": str(tmp_path)})
        await eventually((tmp_path / "begun").exists)
        await pool.drop()
        assert [each["agent_id"] for each in await pool.both_registered()] == ["sample", "hasty"]
        assert (await pool.call("double", {"number": 2}))["result"] == 4
        assert program.returncode is None


@pytest.mark.parametrize("code", [-32602, -32003])
async def test_a_refused_registration_ends_the_program_and_says_why(code: int) -> None:
    async with a_pool() as pool:
        pool.refusal = {"code": code, "message": "it belongs to somebody else"}
        async with a_program(str(SAMPLE), pool.url) as program:
            _, errors = await soon(program.communicate())
    assert program.returncode == 2
    assert f"the pool refuses server.register sample: it belongs to somebody else ({code})" in errors.decode()


async def test_an_address_without_a_pool_ends_the_program_and_says_so() -> None:
    async with a_pool() as pool, a_program(str(SAMPLE), f"{pool.url}/elsewhere") as program:
        _, errors = await soon(program.communicate())
    assert program.returncode == 2
    assert "/elsewhere: server rejected WebSocket connection: HTTP 404" in errors.decode()


async def test_a_program_that_is_told_to_end_finishes_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    async with a_pool() as pool, a_program(str(SAMPLE), pool.url) as program:
        await pool.both_registered()
        _, running = await pool.send("sample", "end_when", {"folder": str(tmp_path)})
        await eventually((tmp_path / "begun").exists)
        program.send_signal(signal.SIGTERM)

        while "error" not in (refused := await pool.call("double", {"number": 2})):
            assert refused["result"] == 4, "the signal has not arrived yet"
        assert (refused["error"]["code"], refused["error"]["message"]) == (-32001, "sample is stopping")
        (tmp_path / "end").touch()
        assert (await soon(running))["result"] == "ended"
        _, errors = await soon(program.communicate())
    assert program.returncode == 0, errors.decode()
    assert pool.closed == [1000]
    assert "Traceback" not in errors.decode()


async def test_a_killed_program_leaves_no_process(tmp_path: Path) -> None:
    async with a_pool() as pool, a_program(str(SAMPLE), pool.url) as program:
        await pool.both_registered()
        await pool.send("sample", "sleep", {"folder": str(tmp_path)})
        await eventually((tmp_path / "pids").exists)
        child, started = (Path("/proc") / pid / "stat" for pid in (tmp_path / "pids").read_text().split())
        program.kill()
        await eventually(lambda: not any(stat.exists() and ") Z" not in stat.read_text() for stat in (child, started)))
