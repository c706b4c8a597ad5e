"""Folders in the shapes that people have, without `agents.yaml`: models are sent the same as by fast-agent itself, the
answers are the same, and so are the files afterwards.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from tests.e2e.calls import call
from tests.integration.fast_agent_worker.scripted_model import Model, scripted_model
from tests.integration.fast_agent_worker.stage import a_worker_of, python
from tests.integration.fast_agent_worker.test_examples import STOCK, files_of, shown
from tests.integration.real_parts import Front, a_gateway

PYTHON = python()
pytestmark = pytest.mark.timeout(400)

PROGRAM = """
from fast_agent import FastAgent
fast = FastAgent("t")

@fast.agent({name}instruction="You keep what {what} says. {{{{env}}}}", servers=["files"])
async def main(): ...
"""
LOOPS = """
from fast_agent import FastAgent, RequestParams
fast = FastAgent("t")

@fast.agent("long", model="generic.loops", servers=["files"])
@fast.agent("short", model="generic.loops", servers=["files"], request_params=RequestParams(max_iterations=2))
async def main(): ...
"""
CARD = "---\nname: {name}\nservers: [files]\n{more}---\nYou keep files.\n"
SERVER = """
import json, sys
from pathlib import Path

root = Path(sys.argv[1]).resolve()
needed = {name: {"type": "string"} for name in ("name", "text")}
schema = {"type": "object", "properties": needed, "required": list(needed)}
tool = {"name": "keep", "description": "Write a file below the allowed folder.", "inputSchema": schema}


def keep(name, text):
    path = Path(name).resolve()
    if not path.is_relative_to(root):
        return "it is not below the allowed folder"
    path.write_text(text)
    return f"{path.relative_to(root)} beside {sorted(each.name for each in root.iterdir())}"


for line in sys.stdin:
    asked = json.loads(line)
    given, answer = asked.get("params") or {}, {"jsonrpc": "2.0", "id": asked.get("id")}
    match asked["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "files", "version": "1"}}
            answer["result"] = {"protocolVersion": given["protocolVersion"], **about}
        case "tools/list":
            answer["result"] = {"tools": [tool]}
        case "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": keep(**given["arguments"])}]}
        case _:
            answer["error"] = {"code": -32601, "message": "no such method"}
    if "id" in asked:
        print(json.dumps(answer), flush=True)
"""
"""Without MCP's SDK, which each of its processes would import for most of a second."""
FOLDERS: dict[str, dict[str, str]] = {
    "nested/app": {
        "src/agent.py": PROGRAM.format(name="", what="the nested one"),
        "../server.py": SERVER,
        "fast-agent.yaml": "cwd: ../",
    },
    "cards": {
        "agent-cards/clerk.md": CARD.format(name="clerk", more="agents: [helper]\ndefault: true\n"),
        "agent-cards/helper.md": CARD.format(name="helper", more="model: generic.other\nmodel: generic.one\n"),
        "server.py": SERVER,
        "fast-agent.yaml": "",
    },
    "files": {
        "agent.py": PROGRAM.format(name="", what="a person"),
        "one.py": PROGRAM.format(name="'worker', ", what="one"),
        "two.py": PROGRAM.format(name="'worker', ", what="two"),
        "../loops.py": LOOPS,
        "loops.py": "-> ../loops.py",
        "server.py": SERVER,
        "fast-agent.yaml": "",
    },
}
CALLS = [
    ("nested/app", "default", "src/agent.py", "default"),
    ("cards", "clerk", "agent-cards/clerk.md", "clerk"),
    ("cards", "helper", "agent-cards/helper.md", "helper"),
    ("files", "default", "agent.py", "default"),
    ("files", "one-worker", "one.py", "worker"),
    ("files", "two-worker", "two.py", "worker"),
    ("files", "long", "loops.py", "long"),
    ("files", "short", "loops.py", "short"),
]
"""Folder, the agent's name here, and its file and name there."""
MESSAGE = "Keep this."

type Ran = list[tuple[str, list[str]]]


def write_folders(place: Path, url: str) -> Path:
    """All folders, with settings."""
    for folder, files in FOLDERS.items():
        for name, text in files.items():
            path = place / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                path.symlink_to(text.removeprefix("-> "))
                continue
            if name == "fast-agent.yaml":
                server = f"{{<<: {{command: {PYTHON}}}, args: [server.py, .], {text}}}"
                text = "default_model: generic.one\nlogger: {type: none}\nsession_history: false\n"
                text += f"generic: {{api_key: k, base_url: '{url}'}}\nmcp: {{servers: {{files: {server}}}}}\n"
            path.write_text(text, "utf-8")
    return place


def run_stock(place: Path, model: Model) -> Ran:
    """What fast-agent itself answers and sends to models."""
    found: Ran = []
    wanted = [(str(place / folder), file, name, MESSAGE) for folder, _, file, name in CALLS]
    with Popen([PYTHON, STOCK / "run.py"], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        for _ in wanted:
            text: Any = json.loads(process.stdout.readline())
            found.append((text.replace(str(place), "FOLDER"), shown(model.taken(), place)))
            process.stdin.write("\n")
            process.stdin.flush()
    return found


async def run_here(front: Front, place: Path, model: Model) -> Ran:
    """What agents answer here, and what models are sent."""
    found: Ran = []
    for folder, agent, *_ in CALLS:
        async with front.client(Path(folder).name, agent, "auto") as client:
            text = (await call(client, agent, MESSAGE)).text
        found.append((text.replace(str(place), "FOLDER"), shown(model.taken(), place)))
    return found


async def test_folders_do_what_they_do_where_fast_agent_runs_them(nats_url: str, tmp_path: Path) -> None:
    with scripted_model() as model:
        here, there = (write_folders(tmp_path / name, model.url) for name in ("here", "there"))
        async with a_gateway(nats_url) as front, AsyncExitStack() as stack:
            workers = (a_worker_of(nats_url, tmp_path, here / each, Path(each).name) for each in FOLDERS)
            await asyncio.gather(*(stack.enter_async_context(worker) for worker in workers))
            for folder, agent, *_ in CALLS:
                await front.serves(Path(folder).name, agent)
            ran = await run_here(front, here, model)
        assert ran == await asyncio.to_thread(run_stock, there, model)
        assert files_of(here) == files_of(there)
        assert [f"{folder}/x" for folder in ("cards", "files", "nested")] == sorted(
            name for name in files_of(here) if name.endswith("/x")
        )
