"""The methods of `/rpc` in OpenRPC's words (https://spec.open-rpc.org, version 1.3).

`rpc.discover` answers with them, and `make gen` makes the table of docs/rpc.md of them.
"""

from typing import Any

from agent_gateway.rpc.read_execution import LONGEST_ID
from pallas_contracts.agents import JsonObject
from pallas_jsonrpc.errors import (
    AGENT_ERROR,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_ALLOWED,
    UNREACHABLE,
)

_ID: JsonObject = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
_AGENT = _ID | {"description": "the data agent: 1 to 64 of `a-z 0-9 _ -`"}
_OBJECT: JsonObject = {"type": "object"}
_SECONDS: JsonObject = {"type": "number", "exclusiveMinimum": 0}

_META: JsonObject = {
    "type": "object",
    "required": ["task_id"],
    "properties": {
        "task_id": _ID
        | {
            "description": "the caller's id of the task that the call belongs to. Log lines of the turn have it,"
            " the turn log a keyed hash. It is no idempotency key."
        },
        "timestamp": {"type": "string", "format": "date-time", "description": "when the call was made (RFC 3339)"},
        "timeout": _SECONDS
        | {
            "description": "seconds to wait for the answer. It can only shorten the agent's own limit. When it has"
            " passed, the caller has left: the turn is cancelled, unless the call has an idempotency key."
        },
        "idempotency_key": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "the same call with the same key is the same turn. Also as the header `Idempotency-Key`, but"
            " not for a batch.",
        },
        "cancel": {
            "type": "boolean",
            "description": "true: cancel the turn of the idempotency key instead, whatever the input. The answer is the"
            " error `cancelled`, or, if the turn is over, its answer.",
        },
    },
}

_CAPABILITIES: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "names of the functions"},
        "resources": {"type": "array", "items": {"type": "string"}, "description": "data sources that it uses"},
        "schema": {"type": "object", "description": "input and output of each tool", "additionalProperties": _OBJECT},
        "constraints": _OBJECT | {"description": "limits, such as `timeout`"},
        "endpoint": _OBJECT | {"description": "where it is called, if not over its WebSocket"},
    },
}

_ERRORS: dict[int, str] = {
    METHOD_NOT_FOUND: "Method not found",
    INVALID_PARAMS: "Invalid params",
    AGENT_ERROR: "Agent function error",
    UNREACHABLE: "Timeout or unreachable",
    NOT_ALLOWED: "Not allowed",
    INTERNAL_ERROR: "Internal error",
}


def _param(name: str, schema: JsonObject, *, required: bool = True) -> JsonObject:
    return {"name": name, "required": required, "schema": schema}


def _method(name: str, summary: str, params: list[JsonObject], result: Any, *errors: int) -> JsonObject:
    return {
        "name": name,
        "summary": summary,
        "paramStructure": "by-name",
        "params": params,
        "result": {"name": "result", "schema": result},
        "errors": [{"code": code, "message": _ERRORS[code]} for code in (*errors, INTERNAL_ERROR)],
    }


EXECUTION = _method(
    "agent.execute",
    "Call a function of an agent. `meta` beside the result has status, execution_time_ms, task_id, turn_id, attempts.",
    [
        _param(
            "agent_id",
            _ID
            | {
                "description": "the agent: at `/teams/{team}/rpc` of this team; at `/rpc` the only one of this name, or"
                " `team/agent`. A data agent does not count while a team has an agent of its name."
            },
        ),
        _param("function", _ID | {"description": "one of its tools, by name or alias, or `get_health`"}),
        _param("input", _OBJECT | {"description": "what fits the tool's input schema"}),
        _param("meta", _META),
    ],
    True,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    AGENT_ERROR,
    UNREACHABLE,
)

DISCOVERY = _method("rpc.discover", "This document.", [], _OBJECT)

_POOL_ERRORS = (INVALID_PARAMS, NOT_ALLOWED, UNREACHABLE)

POOL = (
    _method(
        "server.register",
        "Register a data agent with its tools. The members of capabilities may also stand beside agent_id.",
        [
            _param("agent_id", _AGENT),
            _param("capabilities", _CAPABILITIES, required=False),
            _param("heartbeat_interval", _SECONDS | {"description": "seconds between heartbeats"}, required=False),
        ],
        _OBJECT,
        *_POOL_ERRORS,
    ),
    _method(
        "agent.heartbeat",
        "Say that a data agent is well, or what else it is.",
        [_param("agent_id", _AGENT), _param("status", {"type": "string", "description": "the agent's own word"})],
        _OBJECT,
        METHOD_NOT_FOUND,
        *_POOL_ERRORS,
    ),
    _method(
        "server.unregister",
        "Remove a data agent.",
        [_param("agent_id", _AGENT)],
        _OBJECT,
        METHOD_NOT_FOUND,
        *_POOL_ERRORS,
    ),
)
