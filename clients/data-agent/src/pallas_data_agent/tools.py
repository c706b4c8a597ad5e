"""The functions of an agent, and one call of them, from the message of the pool to the answer."""

import asyncio
import contextvars
import json
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from math import isfinite
from time import monotonic
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
AGENT_ERROR, UNREACHABLE, NOT_ALLOWED = -32000, -32001, -32003

log = logging.getLogger("pallas_data_agent")
_ANY = TypeAdapter[Any](Any)
_meta = contextvars.ContextVar[Mapping[str, Any]]("meta")


type _Value = str | float | list[_Value] | tuple[_Value, ...] | dict[str | int, _Value] | None


class ToolError(Exception):
    """A function raises it to fail with a message for its caller. The messages of other exceptions stay private."""


def call_meta() -> Mapping[str, Any]:
    """The `meta` of the call that runs: `task_id`, `timestamp`, `turn_id`, `attempt`, `timeout` (seconds)."""
    return _meta.get()


class _Schemas(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # it would only repeat the name


class Tool:
    """A function that can be called by name. Its type hints are its JSON Schemas: `input_schema`, `output_schema`."""

    def __init__(self, function: Callable[..., Any], description: str = "") -> None:
        """Raises:
        TypeError: a parameter cannot be given by name.
        pydantic.errors.PydanticUserError: a type hint has no schema.
        """

        def named(**arguments: Any) -> dict[str, Any]:
            return arguments

        arguments: Any = wraps(function)(named)
        self.function = function
        self.description = description
        self._arguments = TypeAdapter[dict[str, Any]](arguments)
        self._result = TypeAdapter[Any](get_type_hints(function, include_extras=True).get("return", Any))
        self.input_schema = _schema(self._arguments.json_schema(schema_generator=_Schemas))
        self.output_schema = _schema(self._result.json_schema(schema_generator=_Schemas, mode="serialization"))
        if self.input_schema["type"] != "object":
            raise TypeError(f"{function.__name__} has a parameter that cannot be given by name")

    def read(self, given: Any) -> dict[str, Any]:
        """The arguments for a JSON object, as the type hints want them.

        Raises:
            ValidationError: some do not fit, are missing, or are not known.
        """
        return self._arguments.validate_python(given)

    def call(self, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> Any:
        """The function's result as JSON. It runs in a context of its own; a coroutine has its own event loop, too."""
        result = contextvars.Context().run(self._run, arguments, meta)
        try:
            return self._result.dump_python(result, mode="json")
        except UnicodeEncodeError:  # half a surrogate pair
            return _ANY.dump_python(_mended(self._result.dump_python(result)), mode="json")

    def _run(self, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> Any:
        _meta.set(meta)
        result = self.function(**arguments)
        return asyncio.run(result) if iscoroutinefunction(self.function) else result


def _schema(schema: JsonSchemaValue) -> JsonSchemaValue:
    """With `$schema` the pool takes every schema for what it is."""
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema}


def answer(tools: Mapping[str, Tool], request: Mapping[str, Any]) -> bytes:
    """The response to an `agent.execute` of one agent (`data-agent-pool.md`, sections 3.1 and 6).

    Raises:
        MemoryError: the function has reached the memory limit.
    """
    params, since = request["params"], monotonic()
    name = params.get("function")
    if name not in tools:
        return failure(request, METHOD_NOT_FOUND, f"Method not found: {name}")
    try:
        arguments = tools[name].read(params.get("input", {}))
    except ValidationError as error:
        found = [(".".join(map(str, each["loc"])) or "input", each["msg"]) for each in error.errors()]
        faults = [{"field": field, "reason": reason} for field, reason in found]
        return failure(request, INVALID_PARAMS, "Invalid params: {}: {}".format(*found[0]), faults=faults)
    try:
        result = tools[name].call(arguments, params.get("meta", {}))
    except MemoryError:
        raise
    except ToolError as error:
        return failure(request, AGENT_ERROR, str(error) or f"{name} failed")
    except (Exception, SystemExit):
        log.exception("%s failed", name)
        return failure(request, AGENT_ERROR, f"{name} failed")
    took = round((monotonic() - since) * 1000)
    return _response(request, result=result, meta={"status": "success", "execution_time_ms": took})


def failure(request: Mapping[str, Any], code: int, message: str, **data: Any) -> bytes:
    """The response with an error."""
    named = {name: request["params"].get(name) for name in ("agent_id", "function")}
    return _response(request, error={"code": code, "message": message, "data": {**named, **data}})


def _response(request: Mapping[str, Any], **body: Any) -> bytes:
    message: Any = {"jsonrpc": "2.0", "id": request["id"], **body}
    try:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except ValueError:  # a number that is not finite, or half a surrogate pair, which no reader of JSON takes
        return json.dumps(_mended(message), separators=(",", ":"), allow_nan=False).encode()


def _mended(value: _Value) -> _Value:
    """The value with null for numbers that are not finite, and U+FFFD for halves of surrogate pairs."""
    match value:
        case float() if not isfinite(value):
            return None
        case str():
            return _mended_text(value)
        case dict():
            return {
                _mended_text(name) if isinstance(name, str) else name: _mended(each) for name, each in value.items()
            }
        case list() | tuple():
            return [_mended(each) for each in value]
        case _:
            return value


def _mended_text(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
