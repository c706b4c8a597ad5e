"""One call of a function, from the message of the pool to the answer. This is what a child process does."""

import asyncio
import contextvars
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from inspect import iscoroutinefunction
from time import monotonic
from typing import Any

from pallas_data_agent.shapes import Fields, InvalidInput, Json, fit

METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
AGENT_ERROR, UNREACHABLE, NOT_ALLOWED = -32000, -32001, -32003

log = logging.getLogger("pallas_data_agent")
_meta = contextvars.ContextVar[Mapping[str, Any]]("meta")


class ToolError(Exception):
    """A function raises it to fail with a message for its caller. The messages of other exceptions stay private."""


def call_meta() -> Mapping[str, Any]:
    """The `meta` of the call that runs: `task_id`, `timestamp`, `turn_id`, `attempt`, `timeout` (seconds)."""
    return _meta.get()


@dataclass(frozen=True)
class Tool:
    """A function that can be called. `open_`: it takes arguments that are not in `fields`, too."""

    function: Callable[..., Any]
    fields: Fields
    open_: bool
    input_schema: Any
    output_schema: Any
    description: str

    def call(self, given: Json, meta: Mapping[str, Any]) -> Any:
        """Call the function in a context of its own; a coroutine runs in an event loop of its own.

        Raises:
            InvalidInput: an argument is missing or not known.
        """
        arguments = fit(self.fields, given, open_=self.open_)
        return contextvars.Context().run(self._run, arguments, meta)

    def _run(self, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> Any:
        _meta.set(meta)
        if iscoroutinefunction(self.function):
            return asyncio.run(self.function(**arguments))
        return self.function(**arguments)


def answer(tools: Mapping[str, Tool], request: Mapping[str, Any]) -> bytes:
    """The response to an `agent.execute` of one agent (sections 3.1 and 6).

    Raises:
        MemoryError: the function has reached the memory limit.
    """
    params, since = request["params"], monotonic()
    name = params.get("function")
    if name not in tools:
        return failure(request, METHOD_NOT_FOUND, f"Method not found: {name}")
    try:
        result = tools[name].call(params.get("input", {}), params.get("meta", {}))
        meta = {"status": "success", "execution_time_ms": round((monotonic() - since) * 1000)}
        return _response(request, result=result, meta=meta)
    except MemoryError:
        raise
    except InvalidInput as error:
        faults = [{"field": error.field, "reason": error.reason}]
        return failure(request, INVALID_PARAMS, f"Invalid params: {error}", faults=faults)
    except ToolError as error:
        return failure(request, AGENT_ERROR, str(error) or f"{name} failed")
    except (Exception, SystemExit):
        log.exception("%s failed", name)
        return failure(request, AGENT_ERROR, f"{name} failed")


def failure(request: Mapping[str, Any], code: int, message: str, **data: Any) -> bytes:
    """The response with an error."""
    named = {name: request["params"].get(name) for name in ("agent_id", "function")}
    return _response(request, error={"code": code, "message": message, "data": {**named, **data}})


def _response(request: Mapping[str, Any], **body: Any) -> bytes:
    response = {"jsonrpc": "2.0", "id": request["id"], **body}
    return json.dumps(response, separators=(",", ":"), allow_nan=False, default=_plain).encode()


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON")
