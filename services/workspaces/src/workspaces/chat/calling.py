"""How agents are called, as the chat sees it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sqlalchemy.ext.asyncio import AsyncSession

from workspaces.answers import HealthView
from workspaces.chat.history import Limits


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent asks the person."""

    message: str
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the person answered to a question (MCP elicitation)."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class CallAnswer(Protocol):
    """What an agent answered."""

    @property
    def text(self) -> str: ...
    @property
    def failed(self) -> bool: ...
    @property
    def code(self) -> str | None: ...
    @property
    def turn_id(self) -> str | None: ...
    @property
    def usage(self) -> dict[str, Any] | None: ...


class CallFailed(Exception):
    """The agent was not reached. `lost`: it may have been called, and the answer may still come."""

    def __init__(self, message: str, *, code: str = "unreachable", lost: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.lost = lost


type OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]
type OnText = Callable[[str], Awaitable[None]]
type OnQuestion = Callable[[Asked], Awaitable[Reaction]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where an agent is, and the bearer for it."""

    url: str
    token: str | None = field(default=None, repr=False)


class AgentCaller(Protocol):
    """Calls agents over MCP."""

    async def call(
        self,
        target: Target,
        tool: str | None,
        arguments: Mapping[str, Any],
        *,
        key: str | None,
        on_progress: OnProgress,
        on_text: OnText,
        on_question: OnQuestion,
    ) -> CallAnswer: ...

    async def keeps_keys(self, target: Target) -> bool: ...


class TargetsOf(Protocol):
    """Where agents are."""

    async def target_of(self, instance_id: str, server_id: str) -> Target: ...


class HealthOf(Protocol):
    """The cached health of agents."""

    def of(self, instance_id: str, server_id: str) -> HealthView: ...

    async def check_now(self, instance_id: str, server_id: str) -> HealthView: ...


type LimitsOf = Callable[[AsyncSession], Awaitable[Limits]]
"""Reads the limits of history from the global settings."""


async def standard_limits(_session: AsyncSession) -> Limits:
    """The limits that nobody has changed."""
    return Limits()
