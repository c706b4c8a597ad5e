"""Agents written in Python: register tools, prompts and resources on a `FunctionAgent`; a worker does the rest.

Needs neither the MCP SDK nor an LLM library. See `docs/function-agents.md`.
"""

from agent_worker.functions.agent import Completer, FunctionAgent, Prompt, Resource, Tool
from agent_worker.functions.context import CallContext, ProtocolFault, ReadContext
from agent_worker.ports import Completed, Failed, NeedsInput
from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import InputRequired, Result

__all__ = [
    "CallContext",
    "Completed",
    "Completer",
    "Failed",
    "FunctionAgent",
    "InputRequired",
    "JsonObject",
    "NeedsInput",
    "Prompt",
    "ProtocolFault",
    "ReadContext",
    "Resource",
    "Result",
    "Tool",
]
