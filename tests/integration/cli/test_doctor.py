"""`pallas doctor`: what it finds on a platform that works, and each thing that it calls wrong."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from tests.embedded import free_port
from tests.integration.pallas_command import Pallas
from tests.integration.real_parts import a_gateway, a_worker, until

AGENTS = "name: tiny\nagents:\n  solo: {title: Solo, description: One., model: offline, instruction: Hello.}\n"

type States = dict[str, str]


@pytest.fixture
def pallas(tmp_path: Path) -> Pallas:
    """The command in an empty folder, without contexts."""
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "agents.yaml").write_text(AGENTS)
    away = f"http://127.0.0.1:{free_port()}"
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "PALLAS_NATS_URL": f"nats://127.0.0.1:{free_port()}"}
    parts = ("REGISTRY", "GATEWAY", "TEAM_LIFECYCLE", "LIBRARY_SEARCH", "PIPELINES", "DATA_POOL", "WORKSPACES")
    return Pallas(environ | {f"PALLAS_{part}_URL": away for part in parts}, tmp_path)


async def states(pallas: Pallas, *words: str) -> States:
    """The state of each check. The exit code says whether one is wrong."""
    result = await pallas("doctor", *words, "--json")
    found: States = {each["check"]: each["state"] for each in result.json["findings"]}
    assert result.code == (1 if "wrong" in found.values() else 0)
    assert all((each["advice"] is None) == (each["state"] in ("ok", "left out")) for each in result.json["findings"])
    return found


async def test_a_platform_that_works(pallas: Pallas, nats_url: str, tmp_path: Path) -> None:
    async with a_gateway(nats_url) as front, a_worker(nats_url, tmp_path / "team"):
        pallas.environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        for name in ("REGISTRY", "GATEWAY", "NATS"):
            pallas.environ[f"PALLAS_{name}_URL"] = ""
        await pallas.done("context", "add", "here", "--nats", nats_url, "--gateway", front.base, "--use")

        async def hosted() -> bool:
            return (await states(pallas)).get("agents") == "ok"

        await until(hosted)
        found = await states(pallas, "--teams", "team")
    assert found["team folders"] == "ok"
    parts = ("python", "broker", "broker login", "workers", "service gateway", "clock")
    assert {part: found[part] for part in parts} == dict.fromkeys(parts, "ok")
    # The other services own these, and none of them runs.
    assert (found["streams"], found["service registry"]) == ("warning", "left out")


async def test_a_platform_that_does_not_run_is_one_fault(pallas: Pallas) -> None:
    found = await states(pallas)
    assert [check for check, state in found.items() if state == "wrong"] == ["broker"]
    assert found["services"] == "left out"
    said = await pallas("doctor")
    assert (said.code, said.out.splitlines()[-1]) == (1, "One thing is wrong.")
    assert "do: start the platform (pallas up)" in said.out


async def test_what_is_wrong_on_this_machine(pallas: Pallas, tmp_path: Path) -> None:
    secret = tmp_path / ".pallas" / "secrets" / "log-key"
    secret.parent.mkdir(parents=True, mode=0o700)
    secret.touch(mode=0o644)
    (tmp_path / "team" / "agents.yaml").write_text("colour: red\n")
    async with answering(b"") as port:
        found = await states(pallas, "--teams", "team", "--port-base", str(port))
    wrong = {check for check, state in found.items() if state == "wrong"}
    assert wrong == {"data folder .pallas", "team folders", "ports", "broker"}


@pytest.mark.parametrize("said", ['{"version": "2.15.0"}', '{"version": "2.9.1", "jetstream": true}'])
async def test_a_broker_that_cannot_serve(pallas: Pallas, said: str) -> None:
    async with answering(f"INFO {said}\r\n".encode()) as port:
        pallas.environ["PALLAS_NATS_URL"] = f"nats://127.0.0.1:{port}"
        found = await states(pallas)
    assert (found["broker"], "broker login" in found) == ("wrong", False)


@pytest.mark.parametrize(
    ("status", "late", "service", "clock"),
    [(200, 0, "ok", "ok"), (200, 60, "ok", "wrong"), (503, 0, "wrong", "ok"), (404, 0, "warning", "ok")],
)
async def test_a_service_that_is_not_ready_or_has_another_time(
    pallas: Pallas, status: int, late: int, service: str, clock: str
) -> None:
    date = format_datetime(datetime.now(UTC) - timedelta(seconds=late), usegmt=True)
    answer = f"HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with answering(answer.encode()) as port:
        pallas.environ["PALLAS_REGISTRY_URL"] = f"http://127.0.0.1:{port}"
        found = await states(pallas)
    assert (found["service registry"], found["clock"], found["service gateway"]) == (service, clock, "wrong")


@asynccontextmanager
async def answering(said: bytes) -> AsyncGenerator[int]:
    """A server that says this to everybody; its port."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
