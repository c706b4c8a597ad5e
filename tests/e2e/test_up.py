"""`pallas up` from outside: its output, its ready file, and that no process is left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from urllib.request import urlopen

import httpx
import psutil
import pytest
from tests.e2e.stack import PALLAS, Stack, wait_until
from tests.embedded import RedisServer
from tests.postgres import PostgresServer

from pallas_contracts.catalog import SERVICES

SERVERS = ("redis", "postgres")
FORKS = "fork-server.log"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """A running stack with two of some services. Tests may kill processes; the last test stops the stack."""
    options = ("--gateways", "2", "--workers", "2", "--with", "redis,postgres", "--no-turn")
    with Stack(tmp_path_factory.mktemp("stack"), *options) as running:
        running.until_ready()
        yield running


def get(url: str) -> int:
    """Return the status of a GET."""
    with urlopen(url, timeout=10) as answer:
        return answer.status


def chat(stack: Stack, message: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Send one message to the demo team's orchestrator."""
    command = [PALLAS, "chat", "harper", "--url", stack.ready()["gateway"], "--message", message, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def test_every_address_in_the_ready_file_answers(stack: Stack) -> None:
    ready = stack.ready()
    servers, services = (
        ("nats", "nats_seed_file", "redis", "postgres"),
        ("team_lifecycle", "library_search", "workspaces"),
    )
    executors = ("pipelines", "data_pool", "coder", "fleet")
    assert set(ready) == {"registry", "gateway", "gateways", *servers, *services, *executors, "data", "log", "pids"}
    assert ready["registry"] == f"http://127.0.0.1:{stack.base}"
    assert ready["gateway"] == ready["gateways"][0] == f"http://127.0.0.1:{stack.base + 20}"
    assert len(ready["gateways"]) == 2
    assert {ready[name] for name in services} == {None}
    wait_until(lambda: "none: it needs the auth services" in stack.text(), "the line about the console")
    assert [ready[name] for name in executors] == [f"http://127.0.0.1:{stack.base + n}" for n in (38, 39, 40, 41)]
    redis, postgres = (Path(ready["data"], "secrets", f"{name}-password").read_text() for name in SERVERS)
    assert ready["redis"] == f"redis://pallas:{redis}@127.0.0.1:{stack.base + 32}"
    assert ready["postgres"] == f"postgresql://postgres:{postgres}@127.0.0.1:{stack.base + 33}/postgres"
    assert {get(f"{url}/readyz") for url in (ready["registry"], *ready["gateways"])} == {200}
    assert get(f"{ready['registry']}/.well-known/mcp/server.json") == 200


def test_every_process_is_listed_and_has_a_log(stack: Stack) -> None:
    ready = stack.ready()
    counts = {name: len(pids) for name, pids in ready["pids"].items()}
    demo = ("demo-tools", "demo-agents")
    one_each = (
        "registry",
        "pipelines",
        "data-pool",
        "health-monitor",
        "fleet",
        "coder",
        *demo,
        "nats-server",
        "redis-server",
        "postgres",
    )
    assert counts == {"agent-gateway": 2, "agent-worker": 2, **dict.fromkeys(one_each, 1)}
    logs = {path.name for path in Path(ready["log"]).iterdir()}
    assert logs == {f"{name}-{n}.log" for name, count in counts.items() for n in range(1, count + 1)} | {FORKS}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere services are executed")
def test_every_service_is_a_fork_that_shares_its_memory_and_starts_when_the_fork_server_is_killed(stack: Stack) -> None:
    ready = stack.ready()
    services = {name: pids[0] for name, pids in ready["pids"].items() if name in SERVICES}
    assert {name.replace("-", "_")[:15]: pid for name, pid in services.items()} == {
        psutil.Process(pid).name(): pid for pid in services.values()
    }
    memory = [psutil.Process(pid).memory_full_info() for pid in services.values()]
    assert sum(each.uss for each in memory) < sum(each.rss for each in memory) / 2
    [server] = [pid for pid in stack.children() if "pallas_runtime.forks" in psutil.Process(pid).cmdline()]
    os.kill(server, signal.SIGKILL)
    os.kill(services["registry"], signal.SIGKILL)
    wait_until(lambda: stack.ready()["pids"]["registry"] != ready["pids"]["registry"], "another registry", 60)
    assert get(f"{ready['registry']}/.well-known/mcp/server.json") == 200
    assert (Path(ready["log"]) / FORKS).read_text("utf-8") == ""


def test_a_chat_prints_the_answer_and_keeps_progress_out_of_the_pipe(stack: Stack) -> None:
    result = chat(stack, "/say blue whale")
    assert result.returncode == 0, result.stderr
    assert "blue whale" in result.stdout
    assert "harper step 1 (llm)" in result.stderr
    assert "step" not in result.stdout


@pytest.mark.parametrize("words", [("turns", "list"), ("chat", "harper", "--message", "/say hello")])
def test_the_data_folder_alone_selects_the_stack(stack: Stack, words: tuple[str, ...]) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PALLAS_")}
    command = [PALLAS, *words, "--data", stack.ready()["data"]]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=environ)
    assert (result.returncode, "harper" in result.stdout or "hello" in result.stdout) == (0, True), result.stderr


def test_a_chat_as_json_prints_one_document_for_each_turn(stack: Stack) -> None:
    document = json.loads(chat(stack, "/say blue whale", "--json").stdout)
    assert "blue whale" in document["answer"]
    assert document["failed"] is False
    assert "harper step 1 (llm)" in document["progress"]


def test_a_chat_sends_its_own_history(stack: Stack) -> None:
    result = subprocess.run(
        [PALLAS, "chat", "demo/harper", "--url", stack.ready()["gateway"], "--json"],
        input="/say blue whale\n/history\n",
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    _, second = (json.loads(line) for line in result.stdout.splitlines())
    assert "/say blue whale" in second["answer"]


def test_ctrl_c_ends_a_chat_that_waits_for_input(stack: Stack) -> None:
    command = [PALLAS, "chat", "harper", "--url", stack.ready()["gateway"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"/say blue whale\n")
        process.stdin.flush()
        assert b"blue whale" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_a_chat_with_an_unknown_agent_fails_with_one_line(stack: Stack) -> None:
    command = [PALLAS, "chat", "nobody", "--url", stack.ready()["gateway"], "--message", "hello"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("pallas: ")
    assert len(result.stderr.splitlines()) == 1


def test_without_the_auth_services_every_agent_of_the_demo_is_healthy(stack: Stack) -> None:
    research = ("chat", "research", "--url", stack.ready()["gateway"], "--message", '/tool look_up {"term": "turn"}')
    result = subprocess.run([PALLAS, *research], capture_output=True, text=True, timeout=90, check=False)
    assert "One call of one tool" in result.stdout, result.stderr

    def health() -> set[str | None]:
        listed = httpx.get(f"{stack.ready()['registry']}/teams/demo/.well-known/mcp/server.json").json()["servers"]
        return {entry["_meta"].get("io.pallas/health", {}).get("status") for entry in listed}

    wait_until(lambda: health() == {"ok"}, "every agent's health")


@pytest.mark.parametrize("name", ["agent-worker", "registry", "nats-server"])
def test_a_killed_process_is_replaced_in_the_ready_file_and_the_stack_answers(stack: Stack, name: str) -> None:
    before = stack.ready()
    os.kill(before["pids"][name][0], signal.SIGKILL)
    wait_until(lambda: stack.ready()["pids"][name] != before["pids"][name], f"another {name}", 60)
    after = stack.ready()
    assert {**after["pids"], name: None} == {**before["pids"], name: None}
    assert {**after, "pids": None} == {**before, "pids": None}
    assert f"{name}-1 was killed by SIGKILL" in stack.text()
    assert get(f"{after['registry']}/.well-known/mcp/server.json") == 200
    assert "still here" in chat(stack, "/say still here").stdout


def test_ctrl_c_stops_all_processes(stack: Stack) -> None:
    logs, before = Path(stack.ready()["log"]), len(stack.text())
    assert stack.interrupt(times=2) == 0
    assert stack.left_over() == []
    assert not stack.ready_file.exists()
    assert all("draining" in (logs / f"{name}-1.log").read_text() for name in ("agent-gateway", "agent-worker"))
    assert "Server Exiting" in (logs / "nats-server-1.log").read_text()
    assert "was killed" not in stack.text()[before:]


def test_a_demo_on_external_servers_creates_its_databases_and_leaves_no_process(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis, PostgresServer(tmp_path / "postgres") as postgres:
        env = {"PALLAS_REDIS_URL": redis.url, "PALLAS_POSTGRES_URL": postgres.url}
        with Stack(tmp_path, "--demo", auth=True, env=env) as stack:
            ready = stack.until_ready()
            assert (ready["redis"], ready["postgres"]) == (redis.url, postgres.url)
            assert not {"redis-server", "postgres"} & set(ready["pids"])
            assert stack.wait() == 0, stack.text()
        text = stack.text()
        assert f"First turn, to http://127.0.0.1:{stack.base + 20}/mcp/harper" in text
        assert "harper step 1 (llm)" in text
        for tool in ("research/research__research", "toolbox/add", "library-search/search"):
            assert f"{tool}: completed" in text
        assert "the task is completed" in text
        [written] = (tmp_path / "data" / "coder" / "workspaces").glob("*/hello.txt")
        assert written.read_text() == "Hello from papi\n"
        assert f"http://127.0.0.1:{stack.base}/.well-known/mcp/server.json" in text
        assert stack.left_over() == []
        assert not stack.ready_file.exists()
        databases = {row[0] for row in asyncio.run(postgres.say("select datname from pg_database"))}
        assert databases >= {"team_lifecycle", "library_search", "workspaces"}
        assert "pallas:lookup" in redis.say("KEYS", "*")
