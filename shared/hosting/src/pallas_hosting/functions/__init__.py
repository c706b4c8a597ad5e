"""Agents written in Python: register tools, prompts and resources on a `FunctionAgent`; a worker does the rest.

Needs neither the MCP SDK nor an LLM library. See `docs/function-agents.md`.
"""

from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import InputRequired, Result
from pallas_hosting.functions.agent import Completer, FunctionAgent, Prompt, Resource, Tool
from pallas_hosting.functions.context import CallContext, ProtocolFault, ReadContext
from pallas_hosting.functions.durable import StepFailed
from pallas_turns.runtime import Completed, Failed, NeedsInput

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
    "StepFailed",
    "Tool",
]
