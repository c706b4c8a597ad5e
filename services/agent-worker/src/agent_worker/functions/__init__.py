"""The path by which the modules of team folders import what is in `pallas_executor.functions`."""

from pallas_executor.functions import (
    CallContext,
    Completed,
    Completer,
    Failed,
    FunctionAgent,
    InputRequired,
    JsonObject,
    NeedsInput,
    Prompt,
    ProtocolFault,
    ReadContext,
    Resource,
    Result,
    Tool,
)

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
