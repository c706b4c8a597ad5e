"""Fields of requests. Errors name the field and the reason."""

import re
import unicodedata
from typing import Annotated
from uuid import UUID

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from workspaces.registries.words import line

LONGEST_NAME = 200
_NEW_ID = "[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}"


def _one_line(value: str) -> str:
    text = line(value, LONGEST_NAME)
    if not text or len(value.strip()) > LONGEST_NAME:
        raise ValueError(f"must be a text of 1 to {LONGEST_NAME} characters")
    if not any(character.isprintable() and unicodedata.category(character)[0] not in "ZM" for character in text):
        raise ValueError("must have a character that can be seen")
    return text


def _new_id(value: str) -> str:
    if not re.fullmatch(_NEW_ID, value):
        raise ValueError("must be 1 to 64 of the characters A-Z, a-z, 0-9, _, - and ., of which . is not the first")
    return value


def _header(value: str) -> str:
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ValueError("must be a bearer token: ASCII without spaces")
    return value


type Name = Annotated[str, AfterValidator(_one_line)]
"""A name that people see."""
type Token = Annotated[str, Field(max_length=8192), AfterValidator(_header)]
type Words = Annotated[str, Query(min_length=2, max_length=200, pattern=r"^[^\x00]*\S[^\x00]*$")]
"""A text to search for."""
type PlainId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
type NewId = Annotated[str, AfterValidator(_new_id), Field(json_schema_extra={"pattern": f"^{_NEW_ID}$"})]
"""Not `.` or `..`, which no address can end with."""
type WorkspaceId = Annotated[PlainId, Path()]
type InstanceId = Annotated[PlainId, Path()]


class Body(BaseModel):
    """The body or the query of a request, without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class NewInstance(Body):
    """A registry to register. `agent_token` is the bearer that its agents are sent.

    `id` is that of a team that Mnemosyne has already; its JWT is replaced.
    """

    registry_url: Annotated[str, Field(max_length=4096)]
    name: Name | None = None
    id: UUID | None = None
    agent_token: Token | None = None


class InstanceChange(Body):
    """What to change of an instance. An empty `agent_token` removes it."""

    name: Name | None = None
    registry_url: Annotated[str, Field(max_length=4096)] | None = None
    agent_token: Token | None = None


class NewWorkspace(Body):
    """A workspace to create. Without an `id` it gets one."""

    name: Name
    id: NewId | None = None


class WorkspaceChange(Body):
    """The new name of a workspace."""

    name: Name


class AttachedIds(Body):
    """The teams to attach, and no others."""

    instance_ids: Annotated[list[PlainId], Field(max_length=1000)]


class SettingsChange(Body):
    """Settings to change; the others stay as they are."""

    health_interval: Annotated[float, Field(ge=1, le=3600)] | None = None
    reconcile_interval: Annotated[float, Field(ge=1, le=86_400)] | None = None
    history_share: Annotated[float, Field(ge=0.05, le=0.95)] | None = None
    history_messages: Annotated[int, Field(ge=0, le=10_000)] | None = None
    history_bytes: Annotated[int, Field(ge=0, le=8_000_000)] | None = None
