"""The tools of RFC-018, and those of its fourth phase: what a model is told of them, and how each is a request."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jsonschema import ValidationError, validate

from constellation_mcp.configuration import Features
from constellation_mcp.engine_types import language_types, with_language_types
from constellation_mcp.service import Offline, Service, ServiceError, segment
from pallas_cst.faults import Faulty, diagnostics
from pallas_cst.parse import parse
from pallas_cst.resources import matching
from pallas_cst.values import is_list, is_object

type Json = dict[str, Any]

_BARE_HASH = re.compile(r"[0-9a-f]{64}")
_SOURCES = ("source", "left", "right")
_EXECUTING = ("execute", "resume", "batch_execute")
_OF_TURNS = {"tool", "caller", "code", "requestedAt", "startedAt", "endedAt", "durationMs", "attempts", "calls"}
"""Fields that only an execution has that was asked for by its id."""
_VALUES = ("inputs", "outputs")
"""Fields with values of programs, in which nothing is changed."""


class Refused(Exception):
    """The call cannot be made as it is."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` takes the service, who calls, and the arguments; it answers with JSON."""

    name: str
    description: str
    properties: Json
    required: tuple[str, ...]
    run: Callable[[Service, str, Json], Awaitable[Json]]
    reads: bool = True

    @property
    def schema(self) -> Json:
        """The schema of the arguments."""
        schema: Json = {"type": "object", "properties": self.properties}
        return schema | ({"required": list(self.required)} if self.required else {})

    def without(self, argument: str) -> "Tool":
        """The tool without one of its arguments."""
        return replace(self, properties={name: each for name, each in self.properties.items() if name != argument})

    def check(self, arguments: Json, longest: int) -> None:
        """Refuse arguments that do not fit, and sources that are too long.

        Raises:
            Refused: they are.
        """
        if unknown := arguments.keys() - self.properties.keys():
            raise Refused(f"{self.name} has no argument {', '.join(sorted(unknown))}")
        try:
            validate(arguments, self.schema)
        except ValidationError as error:
            place = ".".join(map(str, error.absolute_path)) or self.name
            raise Refused(f"{place}: {error.message[:200]}") from None
        try:
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            raise Refused("the arguments have a number or a character that JSON cannot write") from None
        for name in _SOURCES:
            if len(arguments.get(name, "")) > longest:
                raise Refused(f"{name} has {len(arguments[name]):,} characters; {longest:,} are allowed")


def offered(features: Features) -> list[Tool]:
    """The tools that the configuration allows."""
    allowed = [tool for tool in TOOLS if features.allow_execution or tool.name not in _EXECUTING]
    return [
        tool.without("name") if tool.name == "compile" and not features.allow_cold_storage else tool for tool in allowed
    ]


def with_prefix(answer: Any) -> Any:
    """An answer of the HTTP API whose structural hashes are written as `sha256:…`."""
    if is_list(answer):
        return [with_prefix(each) for each in answer]
    if not is_object(answer):
        return answer
    changed = {name: each if name in _VALUES else with_prefix(each) for name, each in answer.items()}
    found = changed.get("structuralHash")
    if isinstance(found, str) and _BARE_HASH.fullmatch(found):
        changed["structuralHash"] = f"sha256:{found}"
    return changed


async def modules_of(service: Service, caller: str) -> list[Json]:
    """All modules that the caller may use.

    Raises:
        ServiceError: the service does not say.
    """
    return with_language_types(listed(await service.get(caller, "/modules"), "modules"))


async def pipelines_of(service: Service, caller: str) -> list[Json]:
    """All stored pipelines that the caller may see.

    Raises:
        ServiceError: the service does not say.
    """
    return listed(await service.get(caller, "/pipelines"), "pipelines")


def listed(answer: Any, name: str) -> list[Json]:
    """The objects in the list of this name.

    Raises:
        ServiceError: there is no such list.
    """
    found = answer.get(name) if is_object(answer) else None
    if not is_list(found):
        raise ServiceError("the Constellation service answered with something else than was asked for")
    return [each for each in found if is_object(each)]


def _object(answer: Any) -> Json:
    if not is_object(answer):
        raise ServiceError("the Constellation service answered with something else than was asked for")
    return {name: each for name, each in with_prefix(answer).items() if each is not None}


async def _validate(service: Service, caller: str, given: Json) -> Json:
    try:
        return _object(await service.post(caller, "/validate", given))
    except Offline as error:
        return _syntax_only(given["source"], str(error))


def _syntax_only(source: str, why: str) -> Json:
    """What can be said of a source without a service."""
    try:
        parse(source)
    except Faulty as error:
        return {"valid": False, "errors": diagnostics(source, error.faults), "warnings": []}
    warning = f"only the syntax was checked, no names and no types: {why}"
    return {"valid": True, "warnings": [{"line": 1, "column": 1, "message": warning}]}


async def _compile(service: Service, caller: str, given: Json) -> Json:
    answer = await _tried(service.post(caller, "/compile", given))
    if "name" in given:
        service.forget()
    if diagnostics := answer.pop("diagnostics", None):
        answer["errors"] = diagnostics
    return answer


async def _execute(service: Service, caller: str, given: Json) -> Json:
    if ("source" in given) == ("ref" in given):
        raise Refused("give either source or ref")
    path = "/run" if "source" in given else "/execute"
    return _executed(await _tried(service.run(caller, path, given)))


async def _resume(service: Service, caller: str, given: Json) -> Json:
    path = f"/executions/{segment(given['executionId'])}/resume"
    return _executed(await _tried(service.run(caller, path, {"additionalInputs": given.get("additionalInputs", {})})))


def _executed(answer: Json) -> Json:
    """An answer of an execution, also of one that was followed after its connection was lost.

    Raises:
        ServiceError: its outputs are not kept any more.
    """
    if "success" not in answer:
        execution, status = answer.get("executionId"), answer.get("status")
        raise ServiceError(f"the connection was lost; execution {execution} is {status}, and its outputs are not kept")
    told = {name: each for name, each in answer.items() if name not in _OF_TURNS}
    if is_object(missing := told.get("missingInputs")):
        told["missingInputs"] = language_types(missing)
    return told


async def _tried(answered: Awaitable[Any]) -> Json:
    """The answer, also if it says with status 400 that there was no success."""
    try:
        return _object(await answered)
    except ServiceError as error:
        if error.status == 400 and is_object(error.answer) and error.answer.get("success") is False:
            return _object(error.answer)
        raise


async def _describe_module(service: Service, caller: str, given: Json) -> Json:
    try:
        return _object(await service.get(caller, f"/modules/{segment(given['name'])}"))
    except ServiceError as error:
        if error.status != 404:
            raise
        raise Refused(f"there is no module {given['name']!r}; list_modules lists those there are") from None


async def _list_modules(service: Service, caller: str, given: Json) -> Json:
    return {"modules": matching(await modules_of(service, caller), given.get("tag"), given.get("search"))}


async def _diff(service: Service, caller: str, given: Json) -> Json:
    return _object(await service.post(caller, "/diff", given))


async def _history(service: Service, caller: str, given: Json) -> Json:
    return _object(await service.get(caller, f"/history{_query(given)}", keep=False))


def _query(given: Mapping[str, Any]) -> str:
    pairs = [f"{name}={segment(str(value))}" for name, value in given.items()]
    return f"?{'&'.join(pairs)}" if pairs else ""


async def _batch_execute(service: Service, caller: str, given: Json) -> Json:
    if ("source" in given) == ("ref" in given):
        raise Refused("give either source or ref")
    return _executed(await _tried(service.run(caller, "/batch", given)))


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


TOOLS = (
    Tool(
        "validate",
        "Validate Constellation pipeline syntax",
        {"source": _text("Pipeline source code (.cst)")},
        ("source",),
        _validate,
    ),
    Tool(
        "compile",
        "Compile pipeline to executable DAG",
        {"source": _text("Pipeline source code"), "name": _text("Optional name for cold storage")},
        ("source",),
        _compile,
        reads=False,
    ),
    Tool(
        "execute",
        "Execute a Constellation pipeline",
        {
            "source": _text("Pipeline source (for hot execution)"),
            "ref": _text("Pipeline reference (for cold execution)"),
            "inputs": {"type": "object", "description": "Input values"},
        },
        ("inputs",),
        _execute,
        reads=False,
    ),
    Tool(
        "resume",
        "Go on with an execution that was suspended because inputs were missing",
        {
            "executionId": _text("The execution that waits"),
            "additionalInputs": {"type": "object", "description": "Input values that were missing"},
        },
        ("executionId",),
        _resume,
        reads=False,
    ),
    Tool(
        "describe_module",
        "Get detailed schema and documentation for a module",
        {"name": _text("Module name")},
        ("name",),
        _describe_module,
    ),
    Tool(
        "list_modules",
        "List available modules",
        {"tag": _text("Filter by tag"), "search": _text("Search in name/description")},
        (),
        _list_modules,
    ),
    Tool(
        "diff",
        "Compare two pipelines: what was added, removed and changed",
        {
            "left": _text("The older pipeline: a reference or its source"),
            "right": _text("The newer pipeline: a reference or its source"),
        },
        ("left", "right"),
        _diff,
    ),
    Tool(
        "history",
        "List your past executions, the latest first",
        {
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many at most"},
            "cursor": _text("Where an earlier list ended"),
        },
        (),
        _history,
    ),
    Tool(
        "batch_execute",
        "Execute a pipeline once for each of many inputs",
        {
            "source": _text("Pipeline source (for hot execution)"),
            "ref": _text("Pipeline reference (for cold execution)"),
            "inputs": {
                "type": "array",
                "items": {"type": "object"},
                "minItems": 1,
                "maxItems": 1000,
                "description": "Input values of each execution",
            },
            "concurrency": {"type": "integer", "minimum": 1, "maximum": 64, "description": "How many at the same time"},
        },
        ("inputs",),
        _batch_execute,
        reads=False,
    ),
)
"""All tools: names, descriptions and schemas are those of RFC-018, where it has them."""
