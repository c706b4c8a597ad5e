"""Runs agents as fast-agent itself does, and prints their answers: `python run.py`.

It reads a list of `[folder, file, agent, message]` as JSON. For each it prints a text as JSON, and waits for a line.
Each folder has a process of its own, because fast-agent keeps settings in global variables; it is imported once.
"""

import asyncio
import importlib.util
import json
import os
import sys
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import httpcore2
from fast_agent import FastAgent, PromptMessageExtended
from fast_agent.core.card_tool_attachment import load_and_attach_card_tool_agents
from fast_agent.mcp import client_callback_runtime
from fast_agent.mcp.helpers.content_helpers import text_content


def main() -> None:
    # Programs must not read what is written to this one, nor write what is read of it.
    given, output = os.fdopen(os.dup(0)), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.argv = ["fast-agent"]
    sys.dont_write_bytecode = True
    # Each client would read all authorities, and the version of fast-agent from its file.
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
    client_callback_runtime.__dict__["version"] = cache(client_callback_runtime.__dict__["version"])
    if not (line := given.readline()):
        return
    for folder, wanted in groupby(json.loads(line), key=itemgetter(0)):
        if (child := os.fork()) == 0:
            os.chdir(folder)
            for _, file, agent, message in wanted:
                fast = cards(Path(file).absolute().parent) if file.endswith(".md") else module(file)
                text = asyncio.run(run(fast, agent, message))
                os.write(output, f"{json.dumps(text)}\n".encode())
                given.readline()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


async def run(fast: FastAgent, agent: str, message: str) -> str:
    async with fast.run() as app:
        asked = PromptMessageExtended(role="user", content=[text_content(message)])
        return (await app[agent].generate([asked])).all_text()


def cards(folder: Path) -> FastAgent:
    """All cards, as fast-agent's command has them."""
    fast = FastAgent("fast-agent", parse_cli_args=False, quiet=True)
    fast.load_agents(folder)
    if (tools := folder.parent / "tool-cards").is_dir():
        load_and_attach_card_tool_agents(fast, [str(tools)], preferred_agent_names=[])
    return fast


def module(file: str) -> FastAgent:
    """The agents of a program."""
    spec = importlib.util.spec_from_file_location(f"stock_{Path(file).stem.replace('-', '_')}", file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    [fast] = [value for value in vars(loaded).values() if isinstance(value, FastAgent)]
    return fast


main()
