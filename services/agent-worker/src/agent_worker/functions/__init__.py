"""The import path of `pallas_hosting.functions` for the modules of team folders."""

from pallas_hosting.functions import (
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
    StepFailed,
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
    "StepFailed",
    "Tool",
]
