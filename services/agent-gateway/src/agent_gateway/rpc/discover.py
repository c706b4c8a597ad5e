"""`rpc.discover`: an OpenRPC document, made of what this caller may use and nothing else."""

import re
from importlib.metadata import version
from typing import Any

from agent_gateway.rpc.agents import CallableAgents
from agent_gateway.rpc.answers import LONGEST_ID
from pallas_contracts.agents import AgentDefinition, JsonObject, ToolDefinition
from pallas_contracts.bounds import Json
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.data_agents import WRAPPED
from pallas_jsonrpc.messages import (
    AGENT_ERROR,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_ALLOWED,
    UNREACHABLE,
)

_WORD = re.compile(r"[A-Za-z0-9_-]+")
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value has a schema for each name."""
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose value is no schema, whatever it looks like."""
_ADDRESS = frozenset({"$schema", "$id"})
"""Keywords without a meaning for tools: references of a schema are to itself always."""


def discover(agents: CallableAgents) -> JsonObject:
    """The document for a caller. `x-agents` has each agent with its functions, resources and constraints."""
    team, url = agents.caller.team, agents.caller.url
    schemas: JsonObject = {}
    listed = [_agent(agent_id, each, schemas) for agent_id, each in sorted(agents.by_id().items()) if not each.unusable]
    return {
        "openrpc": "1.3.2",
        "info": {"title": "Pallas", "version": version("pallas-agent-gateway")},
        "servers": [{"name": "this gateway", "url": url}],
        "methods": [EXECUTION, *(POOL if team in (None, DATA_TEAM) else ()), DISCOVERY],
        "components": {"schemas": schemas},
        "x-agents": listed,
    }


def _agent(agent_id: str, agent: AgentDefinition, schemas: JsonObject) -> JsonObject:
    """An agent; the schemas of its functions are added to `schemas`."""
    place = f"{agent.team}.{agent.agent}"
    return {
        **(agent.facts or {}),
        "agent_id": agent_id,
        "team": agent.team,
        "title": agent.title,
        "description": agent.description,
        "version": agent.version,
        "functions": [_function(tool, _key(place, n, tool.name), schemas) for n, tool in enumerate(agent.tools)],
    }


def _key(place: str, number: int, name: str) -> str:
    """The name of a function's schemas, of characters that OpenRPC allows."""
    return f"{place}.{name}" if _WORD.fullmatch(name) else f"{place}.function.{number}"


def _function(tool: ToolDefinition, key: str, schemas: JsonObject) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.description}
    given = {"input": tool.input_schema, "output": tool.output_schema}
    for part, schema in given.items():
        if schema is not None:
            where = f"#/components/schemas/{key}.{part}"
            schemas[f"{key}.{part}"] = _moved({"type": "object"} | schema, where)
            function[part] = {"$ref": where}
    if tool.meta == WRAPPED and "output" in function:
        function["output"] = {"$ref": f"{function['output']['$ref']}/properties/result"}
    return function


def _moved(schema: Json, place: str) -> Json:
    """A schema as a part of a larger document: references to its own parts are those at their new place."""
    match schema:
        case dict():
            return {word: _moved_value(word, value, place) for word, value in schema.items() if word not in _ADDRESS}
        case list():
            return [_moved(each, place) for each in schema]
        case _:
            return schema


def _moved_value(keyword: str, value: Json, place: str) -> Json:
    match value:
        case str() if keyword == "$ref" and value.startswith("#"):
            return place + value[1:]
        case dict() if keyword in _NAMED:
            return {name: _moved(each, place) for name, each in value.items()}
        case _:
            return value if keyword in _DATA else _moved(value, place)


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
