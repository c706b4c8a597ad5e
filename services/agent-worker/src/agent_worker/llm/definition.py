"""The definition of an LLM agent: one tool named after it, and a history prompt that is always empty.

This module imports no LLM library.
"""

from pallas_contracts.agents import JsonObject, PromptDefinition, ToolDefinition
from pallas_contracts.bounds import line
from pallas_teams import AgentConfig

_IMAGE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "data": {"type": "string", "description": "Base64"},
        "mime_type": {"type": "string", "description": "For example image/png"},
    },
    "required": ["data", "mime_type"],
}

INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The new user turn as plain text"},
        "images": {
            "type": "array",
            "items": _IMAGE_SCHEMA,
            "description": "Images of this turn only; needs a model with vision",
        },
        # Items of any type: an invalid row is skipped with a warning instead of failing the call.
        "history": {
            "type": "array",
            "description": "The conversation so far, oldest first: {role: user|assistant, content, images?}",
        },
        "conversation_id": {"type": "string", "description": "Opaque; logged for trace correlation"},
    },
    "required": ["message"],
    "additionalProperties": False,
}


def agent_tool(agent: AgentConfig) -> ToolDefinition:
    """The tool that talks to the agent."""
    return ToolDefinition(
        name=agent.name,
        title=agent.title,
        description=agent.description,
        input_schema=INPUT_SCHEMA,
        aliases=("send_message",),
        correlation="conversation_id",
    )


def history_prompt(agent: AgentConfig) -> PromptDefinition:
    """The prompt with which older clients read the history. It is empty, because callers keep the history."""
    return PromptDefinition(
        name=f"{agent.name}_history",
        title=line(f"{agent.title} history"),
        description="Always empty: the caller owns the conversation",
        messages=(),
    )
