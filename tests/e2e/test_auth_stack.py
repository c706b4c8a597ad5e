"""`pallas up` with its auth services: what a killed start leaves, who has which secret, and what it prints."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import httpx
import psutil
import pytest
from tests.e2e.auth_stack import ADMIN, TEAMS, AuthStack
from tests.e2e.stack import Stack, wait_until

ROLES = ("postgres", "team_lifecycle", "library_search", "workspaces")
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
    "broker-key": {"nats-server"},
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
"""The processes that should have each secret."""

SENT = {"admin-password": {"team-lifecycle", "workspaces"}, "daedalus-service-password": {"team-lifecycle"}}
"""The processes to which callers have sent a secret. It may be in their memory for a while."""

EXECUTED = ("nats-server", "redis-server", "postgres")
"""The programs that are no forks."""

pytestmark = pytest.mark.timeout(240)


def test_a_killed_first_start_leaves_no_process_and_the_next_keeps_its_secrets(auth_stack: AuthStack) -> None:
    assert [process for process in auth_stack.before if process.is_running()] == []
    first, secrets = auth_stack.secrets
    assert first == secrets
    logs = "".join(path.read_text() for path in Path(auth_stack.ready["log"]).iterdir())
    assert not [name for name, secret in secrets.items() if secret in logs]


def test_a_stack_with_auth_services_gives_each_process_its_own_secrets_and_no_other_account_any(
    auth_stack: AuthStack,
) -> None:
    stack, ready = auth_stack.stack, auth_stack.stack.ready()
    services = ("team-lifecycle", "auth-resolver", "library-search", "workspaces", "redis-server", "postgres")
    assert [len(ready["pids"][name]) for name in services] == [1] * 6
    teams = f"{TEAMS}{uuid.uuid4()}/"
    assert auth_stack.daedalus.get(teams).status_code == 404
    assert auth_stack.admin.get(f"{ADMIN}/users").status_code == 200
    assert what_a_foreign_account_gets(stack) == ["-NOAUTH", *["SCRAM-SHA-256"] * len(ROLES)]
    data = Path(ready["data"])
    assert [name for name in FILES if (data / name).stat().st_mode & 0o077] == []
    in_folder = {name: secret for name, secret in auth_stack.secrets[1].items() if name != "jwt"}
    found = readers(ready["pids"], in_folder)
    assert {name: those - (SENT.get(name, set()) - READERS[name]) for name, those in found.items()} == READERS


def test_the_start_prints_when_agents_answer_and_a_link_to_the_console(auth_stack: AuthStack) -> None:
    ready, stack = auth_stack.ready, auth_stack.stack
    for name, offset in (("team_lifecycle", 36), ("library_search", 37), ("workspaces", 42)):
        assert ready[name] == f"http://127.0.0.1:{stack.base + offset}"
    wait_until(lambda: "Press Ctrl-C to stop everything" in stack.text(), "the end of the start")
    text = stack.text()
    assert text.index("agents answer after") < text.index("ready after")
    assert f"pallas teams list --data {ready['data']}" in text
    assert_console_has_the_demo_workspace(ready["workspaces"], text)


def assert_console_has_the_demo_workspace(url: str, text: str) -> None:
    """Log in by the link that was printed, and find the agents of the demo team."""
    [token] = re.findall(rf"{url}/login#once=(\S+)", text)
    with httpx.Client(base_url=f"{url}/api/v1") as browser:
        browser.headers["x-csrf-token"] = browser.post("/login", json={"once": token}).json()["csrf"]
        workspaces = {(it["id"], it["name"]) for it in browser.get("/workspaces").json()["workspaces"]}
        assert ("demo", "Demo") in workspaces
        instances = {(it["name"], it["status"]) for it in browser.get("/pallas").json()["instances"]}
        assert ("Demo", "provisioned") in instances
        labels = {agent["label"] for agent in browser.get("/workspaces/demo/agents").json()["agents"]}
        assert labels >= {"Demo \u203a Engineering Agent", "Demo \u203a Harper", "Demo \u203a Research Agent"}


def readers(pids: dict[str, list[int]], secrets: dict[str, str]) -> dict[str, set[str]]:
    """Which processes have each secret: forks in their memory, others in their environment."""
    found = {name: (environment if name in EXECUTED else memory)(pid) for name, [pid] in pids.items()}
    return {name: {who for who, has in found.items() if value.encode() in has} for name, value in secrets.items()}


def environment(pid: int) -> bytes:
    """The environment with which a program was executed."""
    return str(psutil.Process(pid).environ()).encode()


def memory(pid: int, tries: int = 10) -> bytes:
    """What a process has written and not given back. It is read again if a part is given back meanwhile."""
    try:
        return written_memory(pid)
    except OSError:
        if tries == 1:
            raise
        return memory(pid, tries - 1)


def written_memory(pid: int) -> bytes:
    """The memory of all parts that a process may write; OSError if one has just been given back."""
    maps = [line.split() for line in Path(f"/proc/{pid}/maps").read_text("ascii").splitlines()]
    written = [(*(int(end, 16) for end in span.split("-")),) for span, rights, *_ in maps if rights == "rw-p"]
    with Path(f"/proc/{pid}/mem").open("rb", 0) as pages:
        return b"".join(os.pread(pages.fileno(), end - start, start) for start, end in written)


def what_a_foreign_account_gets(stack: Stack) -> list[str]:
    """The answer of each server to another account of this machine without a password."""
    words = (str(stack.base + 32), str(stack.base + 33), *ROLES)
    command = [sys.executable, "-c", FOREIGN, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
