"""A process from start to end: its probes, how a signal ends it, and its exit code."""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.embedded import free_port
from tests.waiting import PATIENCE, soon

SERVICE = Path(__file__).parent.parent / "runtime_service.py"

type Start = Callable[..., Awaitable[Process]]


@asynccontextmanager
async def started(how: str, **environ: str) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVICE), how, env={"PALLAS_PORT": "0", **environ}, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - or it warns when the loop is gone


@pytest.fixture
async def start() -> AsyncGenerator[Start]:
    """Start the service: `await start("fine", PALLAS_PORT="0")`."""
    async with AsyncExitStack() as stack:

        async def make(how: str, **environ: str) -> Process:
            return await stack.enter_async_context(started(how, **environ))

        yield make


async def next_line(process: Process) -> str:
    """The next line on its standard output."""
    assert process.stdout is not None
    return (await soon(process.stdout.readline(), within=60.0)).decode().strip()


async def url_of(process: Process) -> str:
    """The URL that it prints once it listens."""
    word, port = (await next_line(process)).split()
    assert word == "port"
    return f"http://127.0.0.1:{port}"


async def ended(process: Process) -> tuple[int, str]:
    """Its exit code and what it wrote to standard error."""
    _, errors = await soon(process.communicate(), within=60.0)
    assert process.returncode is not None
    return process.returncode, errors.decode()


async def until_ready(client: httpx.AsyncClient, url: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await client.get(f"{url}/readyz")).status_code != 200:  # noqa: ASYNC110 - as a probe does
            await asyncio.sleep(0.01)


async def test_a_service_drains_and_closes_on_sigterm_with_exit_code_0(start: Start) -> None:
    process = await start("fine")
    url = await url_of(process)
    async with httpx.AsyncClient(verify=False) as client:
        await until_ready(client, url)
        assert (await client.get(f"{url}/anything")).text == "mine"
    process.send_signal(signal.SIGTERM)
    assert [await next_line(process), await next_line(process)] == ["drain", "closed"]
    code, errors = await ended(process)
    assert code == 0
    assert '"event": "draining"' in errors


async def test_sigint_ends_a_service_in_the_same_way(start: Start) -> None:
    process = await start("fine")
    url = await url_of(process)
    async with httpx.AsyncClient(verify=False) as client:
        await until_ready(client, url)
    process.send_signal(signal.SIGINT)
    assert (await ended(process))[0] == 0


async def test_a_starting_service_is_live_but_not_ready_and_ends_on_a_signal(start: Start) -> None:
    process = await start("slow_start")
    url = await url_of(process)
    async with httpx.AsyncClient(verify=False) as client:
        assert (await client.get(f"{url}/livez")).status_code == 200
        assert (await client.get(f"{url}/readyz")).status_code == 503
        assert (await client.get(f"{url}/anything")).status_code == 503
    process.send_signal(signal.SIGTERM)
    assert await next_line(process) == "closed"
    assert (await ended(process))[0] == 0


async def test_a_draining_service_is_not_ready_and_is_cut_off_at_the_time_limit(start: Start) -> None:
    process = await start("slow_drain", PALLAS_DRAIN_SECONDS="4")
    url = await url_of(process)
    async with httpx.AsyncClient(verify=False) as client:
        await until_ready(client, url)
        process.send_signal(signal.SIGTERM)
        assert await next_line(process) == "drain"
        answer = await client.get(f"{url}/readyz")
        assert (answer.status_code, answer.json()["missing"]) == (503, {"process": "draining"})
        assert (await client.get(f"{url}/livez")).status_code == 200
    code, errors = await ended(process)
    assert code == 0
    assert "drain time exceeded" in errors


async def test_a_service_that_fails_drains_and_ends_with_exit_code_1(start: Start) -> None:
    process = await start("fails")
    await url_of(process)
    assert [await next_line(process), await next_line(process)] == ["drain", "closed"]
    assert (await ended(process))[0] == 1


async def test_a_service_whose_vital_task_fails_drains_and_ends_with_exit_code_1(start: Start) -> None:
    process = await start("loses")
    await url_of(process)
    assert [await next_line(process), await next_line(process)] == ["drain", "closed"]
    code, errors = await ended(process)
    assert code == 1
    assert '"work": "counting", "error": "ValueError"' in errors
    assert "hunter2" not in errors


async def test_a_service_that_fails_while_it_starts_ends_with_exit_code_1(start: Start) -> None:
    process = await start("fails_starting")
    await url_of(process)
    assert await next_line(process) == "closed"
    assert (await ended(process))[0] == 1


@pytest.mark.parametrize("how", ["unavailable", "crashes"])
async def test_a_service_that_cannot_be_built_ends_with_exit_code_1(start: Start, how: str) -> None:
    code, errors = await ended(await start(how))
    assert code == 1
    assert ("no broker" if how == "unavailable" else "a bug") in errors


async def test_a_refused_start_ends_with_exit_code_2_and_one_line(start: Start) -> None:
    code, errors = await ended(await start("refused"))
    assert (code, errors.splitlines()[-1]) == (2, "example: the team folder 'x' is not there")


async def test_a_bad_setting_ends_with_exit_code_2_and_names_the_variable(start: Start) -> None:
    code, errors = await ended(await start("fine", PALLAS_PORT="hunter2"))
    assert code == 2
    assert errors.startswith("example: PALLAS_PORT: ")
    assert "hunter2" not in errors


async def test_a_port_in_use_ends_with_exit_code_2_and_is_named(start: Start) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        code, errors = await ended(await start("fine", PALLAS_PORT=str(port)))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert f"cannot listen on 127.0.0.1:{port}" in errors
