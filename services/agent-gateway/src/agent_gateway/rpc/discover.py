"""`rpc.discover`: an OpenRPC document, made of what this caller may use and nothing else."""

import re
from importlib.metadata import version

from agent_gateway.rpc.agents import CallableAgents
from agent_gateway.rpc.openrpc import DISCOVERY, EXECUTION, POOL
from pallas_contracts.agents import AgentDefinition, JsonObject, ToolDefinition
from pallas_contracts.bounds import Json
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.data_agents import WRAPPED

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
