"""The schema of the files of a team folder, field by field; `docs/team-folder.md` describes it for authors.

Only single fields are checked here; rules about several fields are in `rules`. A field that is part of a definition has
the same bounds there, so a folder without faults makes a definition that can be read. Messages must not hold values.
"""

import re
import uuid
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, create_model
from pydantic_core import PydanticCustomError

from pallas_contracts.bounds import (
    FEW,
    LONGEST_NAME,
    MANY,
    MOST_COUNT,
    MOST_PER_SECOND,
    MOST_SECONDS,
    PORTS,
    Line,
    Text,
    Url,
)
from pallas_contracts.bounds import Name as BoundedName
from pallas_contracts.costs import Currency, Money, Tokens
from pallas_contracts.ids import TOKEN_PATTERN
from pallas_teams.providers import PROVIDERS

TOKEN = re.compile(TOKEN_PATTERN)
SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FORBIDDEN = "forward_inbound_auth"
RESERVED_AGENTS = frozenset({"get_health", "send_message"})
RESERVED_TEAMS = frozenset({"data", "fleet", "pipelines"})

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DOMAIN = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*")


def _fault(message: str) -> PydanticCustomError:
    return PydanticCustomError("team_folder", "{message}", {"message": message})


def _matching(pattern: re.Pattern[str], message: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise _fault(message)
        return value

    return AfterValidator(check)


def _check_uuid(value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except ValueError:
        raise _fault("must be a UUID") from None


def _check_port(value: int) -> int:
    if not 1 <= value <= 65535:
        raise _fault("must be a port, 1 to 65535")
    return value


def _check_agent_port(value: int) -> int:
    if value not in PORTS:
        raise _fault(f"must be a port, {PORTS.start} to {PORTS.stop - 1}")
    return value


def not_bool(value: object) -> object:
    """Refuse true and false where a number is wanted; pydantic takes them for 1 and 0."""
    if isinstance(value, bool):
        raise _fault("must be a number, not true or false")
    return value


type Name = Annotated[str, _matching(TOKEN, "must be 1 to 64 characters of a-z, 0-9, '_' and '-'")]
type Version = Annotated[Line, _matching(_SEMVER, "must be a semantic version such as 1.4.0")]
type Domain = Annotated[BoundedName, _matching(_DOMAIN, "must be a reverse domain such as local.pallas")]
type Model = Annotated[str, Field(max_length=LONGEST_NAME)]
type Uuid = Annotated[str, AfterValidator(_check_uuid)]
type Port = Annotated[int, AfterValidator(_check_port), BeforeValidator(not_bool)]
type AgentPort = Annotated[int, AfterValidator(_check_agent_port), BeforeValidator(not_bool)]
type Count = Annotated[int, Field(ge=1, le=MOST_COUNT), BeforeValidator(not_bool)]
type Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False), BeforeValidator(not_bool)]
type PerSecond = Annotated[float, Field(gt=0, le=MOST_PER_SECOND, allow_inf_nan=False), BeforeValidator(not_bool)]
type _Tokens = Annotated[Tokens, BeforeValidator(not_bool)]
type _Money = Annotated[Money, BeforeValidator(not_bool)]


def _seconds_of(value: object) -> object:
    """Seconds of a time span with a unit; other values as they are."""
    if isinstance(value, str) and (span := _SPAN.fullmatch(value)) is not None:
        return float(span[1]) * _UNITS[span[2]]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _fault("must be a time span such as 30m, 12h or 7d, or a number of seconds")
    return value


type Span = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False), BeforeValidator(_seconds_of)]


class Section(BaseModel):
    """A mapping with known fields only."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class CapabilitiesSection(Section):
    """`model_capabilities`."""

    vision: bool = False
    context_window: Count | None = None
    max_output_tokens: Count | None = None


class AllowSection(Section):
    """`agents.<key>.allow`."""

    types: tuple[Literal["peer", "user", "team", "turn", "token"], ...] = Field(default=(), max_length=FEW)
    teams: tuple[Uuid, ...] = Field(default=(), max_length=MANY)
    tokens: tuple[Uuid, ...] = Field(default=(), max_length=MANY)


class CallerBudgetSection(Section):
    """`budget.per_caller`."""

    tokens_per_day: _Tokens | None = None
    money_per_day: _Money | None = None


class BudgetSection(CallerBudgetSection):
    """`budget`."""

    currency: Currency = "USD"
    per_caller: CallerBudgetSection | None = None


class ToolSection(Section):
    """`agents.<key>.tools.<server/tool>`."""

    retry: Literal["safe", "unsafe"]


class AgentSection(Section):
    """`agents.<key>`."""

    kind: Literal["llm", "function", "fast-agent"] | None = None
    module: str | None = None
    card: str | None = None
    agent: str | None = None
    port: AgentPort | None = None
    title: Line | None = None
    description: Text = ""
    version: Version | None = None
    icon: Url | None = None
    depends_on: tuple[str, ...] = Field(default=(), max_length=MANY)
    servers: tuple[str, ...] = Field(default=(), max_length=MANY)
    model: Model | None = None
    model_capabilities: CapabilitiesSection | None = None
    instruction: str | None = None
    instruction_file: str | None = None
    max_iterations: Count = 20
    turn_timeout: Seconds = 600.0
    queue_timeout: Seconds = 120.0
    max_concurrency: Count | None = None
    max_queued: Count = 1000
    max_attempts: Count = 3
    max_rate: PerSecond | None = None
    max_rate_per_caller: PerSecond | None = None
    grace: Seconds = 30.0
    keep_failed: Span | None = None
    retry: Literal["safe", "unsafe"] = "unsafe"
    on_unknown_tool_outcome: Literal["fail", "tell_model"] = "fail"
    tools: dict[str, ToolSection] = Field(default_factory=dict[str, ToolSection], max_length=MANY)
    allow: AllowSection | None = None


class AgentsFile(Section):
    """`agents.yaml`."""

    name: Name | None = None
    version: Version = "0.0.0"
    host: str | None = None
    namespace: Domain = "local.pallas"
    registry_port: Port | None = None
    team_id: Uuid | None = None
    budget: BudgetSection | None = None
    keep_failed: Span | None = None
    agents: dict[str, AgentSection]


class ProviderSection(Section):
    """`openai`, `anthropic`, `generic`: one for each of `PROVIDERS`."""

    base_url: SecretStr | None = None
    api_key: SecretStr | None = None


class ServerSection(Section):
    """`mcp.servers.<name>`."""

    transport: Literal["http", "stdio"] | None = None
    url: SecretStr | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    command: SecretStr | None = None
    args: tuple[SecretStr, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    cwd: SecretStr | None = None


class McpSection(Section):
    """`mcp`."""

    servers: dict[str, ServerSection] = Field(default_factory=dict[str, ServerSection])


class ConfigFile(Section):
    """`fastagent.config.yaml`, with `fastagent.secrets.yaml` laid on it."""

    default_model: Model | None = None
    model_capabilities: CapabilitiesSection | None = None
    mcp: McpSection = McpSection()

    def provider(self, name: str) -> ProviderSection | None:
        """The section of a provider; None when there is none."""
        return getattr(self, name)


_PROVIDER_SECTIONS: dict[str, Any] = dict.fromkeys(PROVIDERS, (ProviderSection | None, None))

CONFIG_SCHEMA: type[ConfigFile] = create_model("ConfigFile", __base__=ConfigFile, **_PROVIDER_SECTIONS)
"""`ConfigFile` with a section for every provider of the table."""


FIELDS = frozenset({FORBIDDEN}).union(
    *(
        section.model_fields
        for section in (
            AgentsFile,
            AgentSection,
            AllowSection,
            BudgetSection,
            ToolSection,
            CapabilitiesSection,
            CONFIG_SCHEMA,
            ProviderSection,
            McpSection,
            ServerSection,
        )
    )
)
"""The name of every field there is."""
