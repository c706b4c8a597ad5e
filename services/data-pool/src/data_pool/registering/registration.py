"""Read a registration: the params of `server.register` (`data-agent-pool.md`, sections 3.2 and 4).

What an agent can do is given in `capabilities` or beside it, or in both; then `capabilities` counts. All faults are
found at once, each with its field.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from data_pool.registering.shapes import ShapeFault, schema_of, shape_of
from pallas_contracts.agents import AgentDefinition, Allow, Limits, ToolDefinition
from pallas_contracts.bounds import Json, JsonObject, Line, Text
from pallas_contracts.catalog import DATA_TEAM
from pallas_contracts.data_agents import WRAPPED, Endpoint
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal
from pallas_schemas.schema import Schema

MOST_TOOLS = 200
MOST_FAULTS = 100
"""Faults in one answer."""
LONGEST_INTERVAL = 86_400.0
USUAL_TIMEOUT = 60.0
USUAL_CONCURRENCY = 64

_OURS: Mapping[str | int, str] = {"input_schema": "input", "output_schema": "output"}
"""Fields of a `ToolDefinition`, as registrations call them."""

_KINDS = {"model_type": "must be an object", "dict_type": "must be an object", "list_type": "must be a list"}
"""What pydantic would say with the names of our classes, or in words of Python."""


def _text(pattern: str, reason: str) -> AfterValidator:
    """The rule that a text fits a pattern."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(reason)
        return value

    return AfterValidator(check)


type _AgentId = Annotated[
    str,
    _text(r"(?!.*__)[a-z0-9_-]{1,64}", "must be 1 to 64 characters of a-z, 0-9, '_' and '-', without two '_' in a row"),
]
type _ToolName = Annotated[
    str,
    _text(r"[A-Za-z0-9_./-]{1,128}", "must be 1 to 128 characters of A-Z, a-z, 0-9, '_', '.', '/' and '-'"),
    _text(r"(?!get_health$).*", "every agent has a tool of that name"),
]
type _Memory = Annotated[
    str,
    _text(
        r"\d+(\.\d+)? ?(B|KB|KiB|MB|MiB|GB|GiB)",
        "must be a number and a unit, such as 128MB (B, KB, KiB, MB, MiB, GB, GiB)",
    ),
]


def _schema(value: Json) -> JsonObject:
    """The JSON Schema of a type, which may be given as one."""
    match value:
        case {"$schema": str()} | {"type": "object", "properties": dict()} as schema:
            return schema
        case _:
            pass
    try:
        return schema_of(shape_of(value))
    except ShapeFault as fault:
        errors = [
            InitErrorDetails(type=PydanticCustomError("shape", "{reason}", {"reason": reason}), loc=where, input=None)
            for where, reason in fault.faults.items()
        ]
        raise ValidationError.from_exception_data("type", errors) from None


def _of_objects(schema: JsonObject) -> JsonObject:
    if schema.get("type") != "object":
        raise ValueError("must be an object of types")
    return schema


def _reachable(endpoint: Endpoint) -> Endpoint:
    parts = urlsplit(endpoint.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("url must be an http or https address without user and password")
    if re.search(r"\s", endpoint.url):
        raise ValueError("url must not have blanks")
    if parts.port == 0:  # reading a port that is none raises a ValueError
        raise ValueError("url has no port to connect to")
    return endpoint


class _Given(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Constraints(_Given):
    timeout: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = None
    memory: _Memory | None = None
    max_concurrency: Annotated[int, Field(ge=1, le=1000)] | None = None
    idempotent: bool = False
    policy: Json = None


class _Function(_Given):
    input: Annotated[JsonObject, PlainValidator(_schema), AfterValidator(_of_objects)]
    output: Annotated[JsonObject, PlainValidator(_schema)]


class _Registration(_Given):
    agent_id: _AgentId
    tools: Annotated[list[_ToolName], Field(min_length=1, max_length=MOST_TOOLS)]
    resources: Annotated[list[Line], Field(max_length=MOST_TOOLS)] = []
    functions: dict[str, _Function] = Field(alias="schema")
    constraints: _Constraints = _Constraints()
    heartbeat_interval: Annotated[float, Field(ge=1, le=LONGEST_INTERVAL)] | None = None
    endpoint: Annotated[Endpoint, AfterValidator(_reachable)] | None = None
    allow: Allow | None = None
    title: Line | None = None
    description: Text = ""
    descriptions: dict[str, Text] = {}


class InvalidRegistration(Rejected):
    """The registration has faults: `facts["faults"]` is `[{field, reason}]`, the first `MOST_FAULTS`."""

    default_code = "invalid_params"


def invalid(faults: list[dict[str, str]]) -> InvalidRegistration:
    """The refusal of a registration with these faults. The message is about the first one."""
    first = faults[0]
    message = f"Invalid params: {first['field']}: {first['reason']}"
    return InvalidRegistration(message, faults=faults[:MOST_FAULTS])


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration that has been read. `warnings` are sentences for its sender."""

    definition: AgentDefinition
    endpoint: Endpoint | None
    heartbeat_interval: float | None
    warnings: tuple[str, ...]


def read_registration(params: JsonObject, now: datetime, *, one_at_a_time: bool, largest: int) -> Registration:
    """Read a registration. With `one_at_a_time` the agent is called one call at a time.

    Raises:
        InvalidRegistration: it has faults, or its definition has more than `largest` bytes.
    """
    nested: Json = params.get("capabilities", {})
    if not isinstance(nested, dict):
        raise invalid([{"field": "capabilities", "reason": "must be an object"}])
    capabilities = {name: value for name, value in nested.items() if name != "agent_id"}
    given = _Fields({**params, **capabilities}, frozenset(capabilities))
    faults = _mismatches(given)
    try:
        read = _Registration.model_validate(dict(given.values))
    except ValidationError as error:
        raise invalid([*given.faults(error), *faults]) from None
    if faults:
        raise invalid(faults)
    definition = _definition(given, read, now, one_at_a_time=one_at_a_time)
    if len(definition.model_dump_json()) > largest:
        raise invalid([given.fault(("schema",), f"the definition of the agent exceeds {largest} bytes")])
    both = [name for name, value in capabilities.items() if name in params and params[name] != value]
    return Registration(
        definition,
        read.endpoint,
        read.heartbeat_interval,
        (
            *(f"{name} is given twice: that in capabilities counts" for name in both),
            *(f"{name} is not known and has no effect" for name in given.unknown()),
        ),
    )


async def check_schemas(definition: AgentDefinition, owner: Principal) -> None:
    """Compile the schemas of all tools.

    Raises:
        InvalidRegistration: one cannot be used.
        Unavailable: they cannot be compiled now (`busy`).
    """
    faults = list[dict[str, str]]()
    for tool in definition.tools:
        for part, schema in (("input", tool.input_schema), ("output", tool.output_schema or {})):
            try:
                await Schema.compiled(schema, f"{owner.type} {owner.id}")
            except Rejected as error:
                faults.append({"field": f"schema.{tool.name}.{part}", "reason": error.message})
    if faults:
        raise invalid(faults)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a registration; those in `nested` were given in `capabilities`."""

    values: Mapping[str, Json]
    nested: frozenset[str]

    def fault(self, path: tuple[str | int, ...], reason: str) -> dict[str, str]:
        """A fault of a field."""
        where = ("capabilities", *path) if path and path[0] in self.nested else path
        return {"field": ".".join(str(part)[:64] for part in where), "reason": reason.removeprefix("Value error, ")}

    def faults(self, error: ValidationError, *path: str) -> list[dict[str, str]]:
        """The faults of the fields below `path`."""
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return [
            self.fault((*path, *(_OURS.get(part, part) for part in each["loc"])), _KINDS.get(each["type"], each["msg"]))
            for each in found
        ]

    def unknown(self) -> list[str]:
        """The fields that a registration does not have; they may be misspelt."""
        known = {field.alias or name for name, field in _Registration.model_fields.items()} | {"capabilities"}
        found = [name for name in self.values if name not in known]
        for part, model in (("constraints", _Constraints), ("allow", Allow), ("endpoint", Endpoint)):
            value = self.values.get(part)
            names = value if isinstance(value, dict) else ()
            found += [f"{part}.{name}" for name in names if name not in model.model_fields]
        return [name[:64] for name in found[:MOST_FAULTS]]


def _mismatches(given: _Fields) -> list[dict[str, str]]:
    """Where the tools that are listed are not those that are described; other faults are not looked at."""
    listed, schema = given.values.get("tools"), given.values.get("schema")
    if not isinstance(listed, list) or not isinstance(schema, dict):
        return []
    names = [str(name) for name in listed]
    twice = [name for name, times in Counter(names).items() if times > 1]
    return [
        *(given.fault(("tools",), f"{name[:64]!r} is listed twice") for name in twice),
        *(given.fault(("schema", name), "is missing") for name in names if name not in schema),
        *(given.fault(("schema", name), "is of no listed tool") for name in schema if name not in names),
    ]


def _tool(name: str, text: str, given: JsonObject, answered: JsonObject, *, idempotent: bool) -> ToolDefinition:
    wrapped = answered.get("type") != "object"
    if wrapped:
        inner = {key: value for key, value in answered.items() if key not in ("$schema", "$defs")}
        shared = {key: answered[key] for key in ("$defs",) if key in answered}  # references name them from the root
        answered = {"type": "object", "properties": {"result": inner}, "required": ["result"], **shared}
    return ToolDefinition(
        name=name,
        description=text,
        input_schema=given,
        output_schema=answered,
        annotations={"idempotentHint": True} if idempotent else None,
        meta=WRAPPED if wrapped else None,
    )


def _definition(given: _Fields, read: _Registration, now: datetime, *, one_at_a_time: bool) -> AgentDefinition:
    tools, faults, constraints = list[ToolDefinition](), list[dict[str, str]](), read.constraints
    for name in read.tools:
        text, function = read.descriptions.get(name, ""), read.functions[name]
        try:
            tools.append(_tool(name, text, function.input, function.output, idempotent=constraints.idempotent))
        except ValidationError as error:
            faults += given.faults(error, "schema", name)
    if faults:
        raise invalid(faults)
    concurrency = 1 if one_at_a_time else constraints.max_concurrency or USUAL_CONCURRENCY
    try:
        return AgentDefinition(
            team=DATA_TEAM,
            agent=read.agent_id,
            kind="data",
            title=read.title or read.agent_id,
            description=read.description,
            tools=tuple(tools),
            limits=Limits(turn_timeout=constraints.timeout or USUAL_TIMEOUT, max_concurrency=concurrency),
            retry="safe" if constraints.idempotent else "unsafe",
            allow=read.allow,
            facts={
                "resources": read.resources,
                "constraints": constraints.model_dump(mode="json", exclude_none=True),
                "heartbeat_interval": read.heartbeat_interval,
            },
            updated_at=now,
        )
    except ValidationError as error:
        raise invalid(given.faults(error)) from None
