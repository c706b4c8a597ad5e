"""Coder's form of errors, and the reading of request bodies as Coder reads them."""

import json
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

NOT_FOUND = "Resource not found or you do not have access to this resource"


class Refusal(Exception):
    """An error answer: status, message, and maybe a detail and the fields that are wrong."""

    def __init__(self, status: int, message: str, detail: str = "", /, **fields: str) -> None:
        self.status = status
        self.body: dict[str, Any] = {"message": message}
        if detail:
            self.body["detail"] = detail
        if fields:
            self.body["validations"] = [{"field": name, "detail": text} for name, text in fields.items()]


async def refused(request: Request, error: Exception) -> Response:
    """The answer to a Refusal."""
    assert isinstance(error, Refusal)
    return JSONResponse(error.body, error.status)


async def no_route(request: Request, error: Exception) -> Response:
    """The answer to a path or a method that is not served."""
    return JSONResponse({"message": "Route not found."}, getattr(error, "status_code", 404))


def uuid_of(text: str) -> str:
    """A UUID in its usual spelling."""
    try:
        if len(text) != 36:
            raise ValueError(f"invalid UUID length: {len(text)}")
        return str(UUID(text))
    except ValueError as error:
        detail = str(error) if "length" in str(error) else "invalid UUID format"
        raise Refusal(400, f'Invalid UUID "{text}".', detail) from None


def number_of(request: Request, name: str) -> int:
    """A number of the query that is not negative; 0 when it is not there."""
    text = request.query_params.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 31):
        detail = f'Query param "{name}" must be a valid integer'
        raise Refusal(400, "Query parameters have invalid values.", **{name: detail})
    return int(text)


def flag_of(request: Request, name: str) -> bool:
    """A boolean of the query."""
    text = request.query_params.get(name, "").lower()
    if text not in ("", "true", "false", "1", "0", "t", "f"):
        raise Refusal(400, "Query parameters have invalid values.", **{name: f'Query param "{name}" must be a boolean'})
    return text in ("true", "1", "t")


class Body(BaseModel):
    """A request body; what it does not know is ignored, as Coder does."""

    model_config = ConfigDict(strict=True)


async def read[B: Body](request: Request, shape: type[B]) -> B:
    """The body of a request, or the Refusal that Coder answers."""
    try:
        given: Any = json.loads(await request.body())
    except ValueError as error:
        raise Refusal(400, "Request body must be valid JSON.", str(error)) from None
    if given is None:
        given = {}
    if issubclass(type(given), dict):
        given = {name: value for name, value in given.items() if value is not None}
    try:
        return shape.model_validate_json(json.dumps(given))
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"]))
        if wrong["type"] in ("missing", "literal_error", "value_error", "string_too_short"):
            tag = {"missing": "required", "literal_error": "oneof"}.get(
                wrong["type"], str(wrong.get("ctx", {}).get("error"))
            )
            value = "" if wrong["type"] == "missing" else wrong["input"]
            text = f'Validation failed for tag "{tag}" with value: "{value}"'
            raise Refusal(400, "Validation failed.", **{name: text}) from None
        detail = f"json: cannot unmarshal into field {shape.__name__}.{name}: {wrong['msg']}"
        raise Refusal(400, "Request body must be valid JSON.", detail) from None
