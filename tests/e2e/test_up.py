"""`pallas up` from outside: its output, its ready file, and that no process is left."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Generator
from pathlib import Path
from urllib.request import urlopen

import httpx
import psutil
import pytest
from tests.e2e.stack import PALLAS, Stack, wait_until
from tests.embedded import RedisServer
from tests.postgres import PostgresServer
from tests.waiting import is_gone

SERVERS, ROLES = ("redis", "postgres"), ("postgres", "team_lifecycle", "library_search", "workspaces")
FILES = (".", "secrets", "log", "log/nats-server-1.log", "nats", "redis", "postgres", "teams", "coder", "../ready.json")
FOREIGN = """
import os, socket, struct, sys
redis, postgres, roles = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)

def ask(port, question):
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", port))
        connection.sendall(question)
        return connection.recv(99)

print(ask(redis, b"GET pallas:lookup:epoch\\r\\n").decode().split()[0])
for role in roles:
    startup = struct.pack("!I", 196608) + b"user\\0" + role.encode() + b"\\0database\\0postgres\\0\\0"
    print(ask(postgres, struct.pack("!I", len(startup) + 4) + startup)[9:].partition(b"\\0")[0].decode())
"""
"""The answers of the servers to another account of the machine. Needs root to switch accounts."""

READERS = {
    "admin-password": set[str](),
    "coder-token": {"coder", "fleet"},
    "daedalus-service-password": {"workspaces"},
    "keep-key": set[str](),
    "fernet-keys": {"team-lifecycle", "auth-resolver"},
    "log-key": {"agent-gateway", "pipelines"},
    "request-state": {"agent-gateway"},
    "redis-password": {"team-lifecycle", "auth-resolver"},
    "postgres-password": set[str](),
    "team-lifecycle-postgres-password": {"team-lifecycle"},
    "library-search-postgres-password": {"library-search"},
    "workspaces-postgres-password": {"workspaces"},
    "secret-key": {"workspaces"},
}
"""The processes that should have each secret in their environment."""

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
    assert logs == {f"{name}-{n}.log" for name, count in counts.items() for n in range(1, count + 1)}


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


def test_a_killed_first_start_leaves_no_process_and_the_next_keeps_its_secrets(tmp_path: Path) -> None:
    with Stack(tmp_path, "--no-turn", auth=True) as stack:
        wait_until(lambda: "jwt" in secrets_of(tmp_path), "the demo team's JWT, which is stored last", 90)
        first, pids = secrets_of(tmp_path), stack.children()
        stack.kill9()
    wait_until(lambda: all(map(is_gone, pids)), "the end of every process", 10)
    assert a_run_with_auth(tmp_path) == first
    logs = "".join(path.read_text() for path in (tmp_path / "data" / "log").iterdir())
    assert not [name for name, secret in first.items() if secret in logs]


def secrets_of(folder: Path) -> dict[str, str]:
    """The secrets in the data folder by name, with the demo team's JWT once it is there."""
    kept, team = folder / "data" / "secrets", folder / "data/teams/demo/fastagent.secrets.yaml"
    secrets = {path.name: path.read_text() for path in kept.iterdir() if path.is_file()} if kept.exists() else {}
    if team.exists():
        [secrets["jwt"]] = re.findall(r"Bearer (\S+)", team.read_text())
    return secrets


def a_run_with_auth(folder: Path) -> dict[str, str]:
    """Start a stack with its auth services, use it, stop it, and return its secrets by name."""
    with Stack(folder, auth=True) as stack:
        ready = stack.until_ready()
        secrets = secrets_of(folder)
        assert ready["team_lifecycle"] == f"http://127.0.0.1:{stack.base + 36}"
        assert ready["library_search"] == f"http://127.0.0.1:{stack.base + 37}"
        assert ready["workspaces"] == f"http://127.0.0.1:{stack.base + 42}"
        services = ("team-lifecycle", "auth-resolver", "library-search", "workspaces", "redis-server", "postgres")
        assert [len(ready["pids"][name]) for name in services] == [1] * 6
        teams = f"{ready['team_lifecycle']}/mcp_server/api/teams/{uuid.uuid4()}/"
        assert httpx.get(teams, auth=("daedalus-service", secrets["daedalus-service-password"])).status_code == 404
        users = f"{ready['team_lifecycle']}/admin/api/users"
        assert httpx.get(users, auth=("admin", secrets["admin-password"])).status_code == 200
        assert what_a_foreign_account_gets(stack) == ["-NOAUTH", *["SCRAM-SHA-256"] * len(ROLES)]
        data = Path(ready["data"])
        assert [name for name in FILES if (data / name).stat().st_mode & 0o077] == []
        kept_in_folder = {name: secret for name, secret in secrets.items() if name != "jwt"}
        assert readers(ready["pids"], kept_in_folder) == READERS
        wait_until(lambda: "Press Ctrl-C to stop everything" in stack.text(), "the end of the first turn")
        assert_console_has_the_demo_workspace(ready["workspaces"], stack.text())
        assert stack.interrupt() == 0
    assert stack.left_over() == []
    text = stack.text()
    assert text.index("agents answer after") < text.index("ready after")
    assert "library-search/search: completed" in text
    assert f"pallas teams list --data {ready['data']}" in text
    assert "was killed" not in text
    return secrets


def assert_console_has_the_demo_workspace(url: str, text: str) -> None:
    """Log in by the link that was printed, and find the agents of the demo team."""
    [token] = re.findall(rf"{url}/login#once=(\S+)", text)
    with httpx.Client(base_url=f"{url}/api/v1") as browser:
        browser.headers["x-csrf-token"] = browser.post("/login", json={"once": token}).json()["csrf"]
        [workspace] = browser.get("/workspaces").json()["workspaces"]
        assert (workspace["id"], workspace["name"]) == ("demo", "Demo")
        [instance] = browser.get("/pallas").json()["instances"]
        assert (instance["name"], instance["status"], instance["jwt"]) == ("Demo", "provisioned", "revealed")
        labels = [agent["label"] for agent in browser.get("/workspaces/demo/agents").json()["agents"]]
        assert labels == ["Demo \u203a Engineering Agent", "Demo \u203a Harper", "Demo \u203a Research Agent"]


def readers(pids: dict[str, list[int]], secrets: dict[str, str]) -> dict[str, set[str]]:
    """Which processes have each secret in their environment."""
    found = {name: str(psutil.Process(pid).environ()) for name, [pid] in pids.items()}
    return {secret: {name for name, environ in found.items() if value in environ} for secret, value in secrets.items()}


def what_a_foreign_account_gets(stack: Stack) -> list[str]:
    """The answer of each server to another account of this machine without a password."""
    words = (str(stack.base + 32), str(stack.base + 33), *ROLES)
    command = [sys.executable, "-c", FOREIGN, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()


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
