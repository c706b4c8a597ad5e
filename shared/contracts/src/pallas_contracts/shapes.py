"""Shapes of what a definition has in MCP's words, which the gateway passes on without looking at it.

A definition keeps such values as they are. Here they are only checked, so that a definition which the gateway could not
list is unusable for all readers. The shapes are those of MCP 2025-11-25 and 2026-07-28, whichever is narrower.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pallas_contracts.bounds import BoundedObject, JsonObject, reason_of


class _Listed(BaseModel):
    """A part of a list. Its fields may have Python's names or those of MCP."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class _Icon(_Listed):
    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class _ToolAnnotations(_Listed):
    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class _PromptArgument(_Listed):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class _Schema(BaseModel):
    """An object. A schema without a type is listed with this type."""

    dialect: str | None = Field(None, alias="$schema")
    type: Literal["object"] = "object"
    properties: dict[str, dict[str, Any] | bool] | None = None
    required: list[str] | None = None


class _Answered(BaseModel):
    """A part of an answer. Its fields have MCP's names."""

    model_config = ConfigDict(alias_generator=to_camel)


class _Text(_Answered):
    type: Literal["text"]
    text: str


class _Media(_Answered):
    type: Literal["image", "audio"]
    data: str
    mime_type: str


class _Link(_Answered):
    type: Literal["resource_link"]
    uri: str
    name: str


class _TextResource(_Answered):
    uri: str
    text: str


class _BlobResource(_Answered):
    uri: str
    blob: str


class _Embedded(_Answered):
    type: Literal["resource"]
    resource: _TextResource | _BlobResource


class _PromptMessage(_Answered):
    role: Literal["user", "assistant"]
    content: Annotated[_Text | _Media | _Link | _Embedded, Field(discriminator="type")]


def _fits(shape: type[BaseModel]) -> AfterValidator:
    def check(value: JsonObject) -> JsonObject:
        try:
            shape.model_validate(value)
        except ValidationError as error:
            raise ValueError(reason_of(error)) from None
        return value

    return AfterValidator(check)


type IconObject = Annotated[BoundedObject, _fits(_Icon)]
type AnnotationsObject = Annotated[BoundedObject, _fits(_ToolAnnotations)]
type ArgumentObject = Annotated[BoundedObject, _fits(_PromptArgument)]
type MessageObject = Annotated[BoundedObject, _fits(_PromptMessage)]
type SchemaObject = Annotated[BoundedObject, _fits(_Schema)]
