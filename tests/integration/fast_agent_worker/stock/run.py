"""Runs agents as fast-agent itself does, and prints their answers: `python run.py` in the folder of the examples.

It reads a list of `[file, agent, message]` as JSON, and prints a JSON list of texts.
"""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path

from fast_agent import FastAgent, PromptMessageExtended
from fast_agent.core.card_tool_attachment import load_and_attach_card_tool_agents
from fast_agent.mcp.helpers.content_helpers import text_content


async def main() -> None:
    # Programs must not read what is written to this one, nor write what is read of it.
    given, output = os.fdopen(os.dup(0)), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if not (line := given.readline()):
        return
    wanted = json.loads(line)
    sys.argv = ["fast-agent"]
    with os.fdopen(output, "w") as out:
        for file, agent, message in wanted:
            out.write(json.dumps(await run(file, agent, message)) + "\n")
            out.flush()
            given.readline()


async def run(file: str, agent: str, message: str) -> str:
    fast = cards() if file.endswith(".md") else module(file)
    async with fast.run() as app:
        asked = PromptMessageExtended(role="user", content=[text_content(message)])
        return (await app[agent].generate([asked])).all_text()


def cards() -> FastAgent:
    """All cards, as fast-agent's command has them."""
    fast = FastAgent("fast-agent", parse_cli_args=False, quiet=True)
    fast.load_agents(Path(".fast-agent/agent-cards").absolute())
    load_and_attach_card_tool_agents(fast, [str(Path(".fast-agent/tool-cards").absolute())], preferred_agent_names=[])
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


asyncio.run(main())
