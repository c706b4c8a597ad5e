"""The methods of `/rpc` in OpenRPC's words (https://spec.open-rpc.org, version 1.3)."""

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
_OBJECT: JsonObject = {"type": "object"}
_SECONDS: JsonObject = {"type": "number", "exclusiveMinimum": 0}

_META: JsonObject = {
    "type": "object",
    "required": ["task_id"],
    "properties": {
        "task_id": _ID | {"description": "the caller's id of the task that the call belongs to"},
        "timestamp": {"type": "string", "format": "date-time"},
        "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 200},
        "timeout": _SECONDS | {"description": "seconds; may only shorten the agent's own limit"},
    },
}

_CAPABILITIES: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "resources": {"type": "array", "items": {"type": "string"}},
        "schema": {"type": "object", "description": "input and output of each tool", "additionalProperties": _OBJECT},
        "constraints": _OBJECT,
        "endpoint": _OBJECT,
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
        _param("agent_id", _ID),
        _param("function", _ID | {"description": "one of x-agents, or get_health"}),
        _param("input", _OBJECT),
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
            _param("agent_id", _ID),
            _param("capabilities", _CAPABILITIES, required=False),
            _param("heartbeat_interval", _SECONDS, required=False),
        ],
        _OBJECT,
        *_POOL_ERRORS,
    ),
    _method(
        "agent.heartbeat",
        "Say that a data agent is well, or what else it is.",
        [_param("agent_id", _ID), _param("status", {"type": "string"})],
        _OBJECT,
        METHOD_NOT_FOUND,
        *_POOL_ERRORS,
    ),
    _method(
        "server.unregister",
        "Remove a data agent.",
        [_param("agent_id", _ID)],
        _OBJECT,
        METHOD_NOT_FOUND,
        *_POOL_ERRORS,
    ),
)
