"""Writes a team folder that runs, and says how: an agent with the offline model and, if wanted, one in Python."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pallas_cli.plain_text import print_plain
from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused

_READABLE = 0o644

_AGENTS = """\
# The agents of the team. Every field is in docs/team-folder.md; `pallas agents validate .` checks the folder.
name: {team}
version: 0.1.0
agents:
  assistant:
    title: Assistant
    description: Answers questions
    instruction_file: assistant.md
"""

_FUNCTION = """\
  clock:
    kind: function
    title: Clock
    description: Says what time it is
    module: clock.py
"""

_INSTRUCTION = """\
You answer questions in one paragraph. Say so when you do not know an answer.
"""

_CONFIG = """\
# `offline` answers without a key and without a network: a message with the line `/say hello` is answered with hello.
# For a real model, name it here (anthropic.NAME, openai.NAME or generic.NAME), and put its key into
# fastagent.secrets.yaml.
default_model: offline
model_capabilities: {vision: true, context_window: 200000}

# MCP servers that agents may use, each agent those that its `servers` in agents.yaml name.
mcp:
  servers: {}
"""

_CLOCK = '''\
"""An agent without a model: its tools are functions."""

from datetime import UTC, datetime, timedelta

from agent_worker.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()

SCHEMA = {
    "type": "object",
    "properties": {"offset": {"type": "number", "description": "Hours east of Greenwich", "default": 0}},
}


@agent.tool("now", "The present time", input_schema=SCHEMA)
async def now(ctx: CallContext, arguments: JsonObject) -> str:
    """The time as a text. What a tool returns is its result; what it raises as `Failed` is the caller's error."""
    moment = datetime.now(UTC) + timedelta(hours=float(arguments.get("offset", 0)))
    return f"{moment:%H:%M}"
'''

_IGNORED = """\
# Secrets stay on this machine.
fastagent.secrets.yaml
.pallas/
__pycache__/
"""


def write_team(folder: Path, *, python: bool, as_json: bool) -> None:
    """Write a new team into `folder`, which is created; with `python`, also an agent written in Python.

    Raises:
        Refused: the folder is not empty, or cannot be written.
    """
    files = _files(_team_name(folder), python=python)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise Refused(f"{folder} is not empty: choose another folder", word="exists")
        for name, text in files.items():
            write_atomically(folder / name, text, _READABLE)
    except OSError as error:
        raise Refused(f"{folder}: {error.strerror}") from error
    commands = [f"pallas up --teams {folder}", "pallas chat assistant"]
    commands += ["pallas rpc clock now '{\"offset\": 2}'"] if python else []
    if as_json:
        print(json.dumps({"folder": str(folder), "files": list(files), "next": commands}, indent=2))
        return
    print_plain(f"{folder} is a team with {'two agents' if python else 'one agent'}. Next, and in another terminal:")
    for command in commands:
        print_plain(f"  {command}")


def _files(team: str, *, python: bool) -> Mapping[str, str]:
    agents = _AGENTS.format(team=team)
    files = {
        "agents.yaml": agents + (_FUNCTION if python else ""),
        "assistant.md": _INSTRUCTION,
        "fastagent.config.yaml": _CONFIG,
        ".gitignore": _IGNORED,
    }
    return files | ({"clock.py": _CLOCK} if python else {})


def _team_name(folder: Path) -> str:
    """The name of the folder as the name of a team."""
    return re.sub(r"[^a-z0-9_-]+", "-", folder.absolute().name.lower()).strip("-")[:64] or "team"
