"""The files of a new team folder: an agent with the offline model, and, if wanted, one written in Python."""

AGENTS = """\
# The agents of the team. Every field is in docs/team-folder.md; `pallas agents validate .` checks the folder.
name: {team}
version: 0.1.0
agents:
  assistant:
    title: Assistant
    description: Answers questions
    instruction_file: assistant.md
"""

FUNCTION = """\
  clock:
    kind: function
    title: Clock
    description: Says what time it is
    module: clock.py
"""

INSTRUCTION = """\
You answer questions in one paragraph. Say so when you do not know an answer.
"""

CONFIG = """\
# `offline` answers without a key and without a network: a message with the line `/say hello` is answered with hello.
# For a real model, name it here (anthropic.NAME, openai.NAME or generic.NAME), and put its key into
# fastagent.secrets.yaml.
default_model: offline
model_capabilities: {vision: true, context_window: 200000}

# MCP servers that agents may use, each agent those that its `servers` in agents.yaml name.
mcp:
  servers: {}
"""

CLOCK = '''\
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

IGNORED = """\
# Secrets stay on this machine.
fastagent.secrets.yaml
.pallas/
__pycache__/
"""
