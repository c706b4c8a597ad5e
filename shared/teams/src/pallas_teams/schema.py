"""The schema of the files of a team folder, field by field.

The text below a field is its meaning in the tables of `docs/team-folder.md`, which `make gen` writes. "Default:" says
what holds without the field, where that is no value.

Only single fields are checked here; rules about several fields are in `rules`. A field that is part of a definition has
the same bounds there, so a folder without faults makes a definition that can be read. Messages must not hold values.
"""

import re
import uuid
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    create_model,
)
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
from pallas_contracts.turns import TURN_STATUSES, TurnStatus
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
_SPAN_TYPE = TypeAdapter[float](Span)


def _spans_of(value: object) -> object:
    """One time span as that for each way in which a turn ends; other values as they are."""
    if not isinstance(value, str | int | float):
        return value
    try:
        return dict.fromkeys(TURN_STATUSES, _SPAN_TYPE.validate_python(value))
    except ValidationError as error:
        raise _fault(error.errors(include_input=False, include_url=False)[0]["msg"]) from None


type Keep = Annotated[dict[TurnStatus, Span], BeforeValidator(_spans_of)]


class Section(BaseModel):
    """A mapping with known fields only."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class CapabilitiesSection(Section):
    """`model_capabilities`."""

    vision: bool = False
    """Whether the model can see. An agent without vision answers images with `vision_required`."""
    context_window: Count | None = None
    """Size of the model's context window, in tokens. Default: unknown."""
    max_output_tokens: Count | None = None
    """Tokens of an answer, at most. Default: unknown."""


class AllowSection(Section):
    """`agents.<key>.allow`."""

    types: tuple[Literal["peer", "user", "team", "turn", "token"], ...] = Field(default=(), max_length=FEW)
    """Every caller of these types: `token` has an opaque token, `team` a team JWT, `turn` a per-turn JWT, `peer` none
    of these."""
    teams: tuple[Uuid, ...] = Field(default=(), max_length=MANY)
    """Registered teams with these ids."""
    tokens: tuple[Uuid, ...] = Field(default=(), max_length=MANY)
    """Opaque tokens with these ids."""


class CallerBudgetSection(Section):
    """`budget.per_caller`."""

    tokens_per_day: _Tokens | None = None
    """Input and output tokens in a day (UTC); 0 allows none. Default: no limit."""
    money_per_day: _Money | None = None
    """Money in a day, in units of `currency`. Default: no limit."""


class BudgetSection(CallerBudgetSection):
    """`budget`."""

    currency: Currency = "USD"
    """Three capital letters: the currency of the price table."""
    per_caller: CallerBudgetSection | None = None
    """The same two limits for each caller of the team. Default: no limit."""


class ToolSection(Section):
    """`agents.<key>.tools.<server/tool>`."""

    retry: Literal["safe", "unsafe"]
    """Whether the tool may be called again when a worker was lost before it answered. `unsafe` holds even if the agent
    or the tool itself says otherwise."""


class AgentSection(Section):
    """`agents.<key>`."""

    kind: Literal["llm", "function", "fast-agent"] | None = None
    """`llm`: a model with an instruction. `function`: the tools of a Python module, without a model. `fast-agent`: an
    agent of [fast-agent](#teams-of-fast-agent). Default: `llm`; `fast-agent` for an agent with a `module` or a `card`
    and no instruction."""
    module: str | None = None
    """Kinds `function` (required) and `fast-agent`: a Python file of the folder (`numbers.py`) or a dotted name
    (`my_team.numbers`)."""
    card: str | None = None
    """Kind `fast-agent`: the file of an agent card, in place of a `module`."""
    agent: str | None = None
    """Kind `fast-agent`: name of the agent in the module. Default: the one with this agent's name, else the module's
    default."""
    port: AgentPort | None = None
    """A dedicated port, not reserved at the gateway (`PALLAS_RESERVED_PORTS`) and unique over all folders that are
    hosted together (per `host`)."""
    title: Line | None = None
    """Display name. Default: the agent's name."""
    description: Text = ""
    """One line for people and for agents that may call this one."""
    default: bool = False
    """People begin with this agent: the console picks it first. Default: agents that no other one calls."""
    starters: tuple[Line, ...] = Field(default=(), max_length=FEW)
    """Messages to try the agent with. The console offers the first three."""
    version: Version | None = None
    """Version of this agent. Default: the team's."""
    icon: Url | None = None
    """Address of an icon; may be relative."""
    depends_on: tuple[str, ...] = Field(default=(), max_length=MANY)
    """Agents of this team with a model that it can call as tools (a function: with `ctx.call_agent`); no cycles."""
    servers: tuple[str, ...] = Field(default=(), max_length=MANY)
    """Names from `mcp.servers` that it can use (a function: with `ctx.call_tool`)."""
    model: Model | None = None
    """Kinds `llm` and `fast-agent`: `offline`, `openai.NAME`, `anthropic.NAME` or `generic.NAME`. One of
    `fast-agent` uses it if its source names none. Default: `default_model`."""
    model_capabilities: CapabilitiesSection | None = None
    """Kinds `llm` and `fast-agent`: what its model can do; replaces all of the default. Default: those of the
    configuration."""
    instruction: str | None = None
    """Kind `llm`: the system prompt. Default: empty."""
    instruction_file: str | None = None
    """Kind `llm`: a UTF-8 file of the folder with the system prompt, used unchanged; not together with `instruction`.
    """
    max_iterations: Count | None = None
    """Kinds `llm` and `fast-agent`: calls of the model in one run of the agent. Default: 20; what fast-agent allows for
    `fast-agent`."""
    turn_timeout: Seconds = 600.0
    """Seconds that a turn may take, over all its attempts."""
    queue_timeout: Seconds = 120.0
    """Seconds that a turn may wait with no worker before it ends with `agent_failed` and the agent counts as failed."""
    max_concurrency: Count | None = None
    """Turns that run at a time, over all workers. Default: no limit."""
    max_queued: Count = 1000
    """Turns that may wait, at most half of them of one caller; more are refused as `busy`."""
    max_attempts: Count = 3
    """How many workers a turn may lose; those that drain do not count."""
    max_rate: PerSecond | None = None
    """Turns a second; more are refused as `busy`. Default: no limit."""
    max_rate_per_caller: PerSecond | None = None
    """Turns a second of one caller; more are refused as `busy`. Default: no limit."""
    keep: Keep | None = None
    """How long content of this agent's turns is kept. Default: the team's."""
    retry: Literal["safe", "unsafe"] = "unsafe"
    """`safe`: its tools (and, of a function, its steps and side effects) may be called again if a worker was lost
    before they answered; see [below](#tools-that-were-under-way)."""
    on_unknown_tool_outcome: Literal["fail", "tell_model"] = "fail"
    """Kind `llm`: `tell_model` goes on when a tool was under way that may not be called again, and tells the model."""
    tools: dict[str, ToolSection] = Field(default_factory=dict[str, ToolSection], max_length=MANY)
    """What holds for single tools, by `server/tool`."""
    allow: AllowSection | None = None
    """Who may use the agent; see [below](#allow). Default: everybody."""


class AgentsFile(Section):
    """`agents.yaml`."""

    name: Name | None = None
    """The team's name; no two folders hosted together share one. Default: the folder's name, in small letters and with
    hyphens."""
    version: Version = "0.0.0"
    """Version of the folder. An older one never replaces a newer one."""
    host: str | None = None
    """The host to which dedicated ports belong."""
    namespace: Domain = "local.pallas"
    """With the agent's name it identifies the agent in the registry."""
    registry_port: Port | None = None
    """Accepted for compatibility with existing folders. No agent may use the same port."""
    team_id: Uuid | None = None
    """The [registered team](glossary.md#team) that the folder belongs to."""
    budget: BudgetSection | None = None
    """What the team may spend on models in a [day](costs.md#budgets). Default: no limit."""
    keep: Keep | None = None
    """How long content is kept after a turn's end, also by how it ended; see [below](#keep). Default:
    `PALLAS_CONTENT_SECONDS` of the worker."""
    agents: dict[str, AgentSection]
    """The agents by name (characters as for `name`; not `get_health` or `send_message`)."""


class ProviderSection(Section):
    """`openai`, `anthropic`, `generic`: one for each of `PROVIDERS`."""

    base_url: SecretStr | None = None
    """Address of the API. `generic` needs one. Default: the provider's."""
    api_key: SecretStr | None = None
    """Key of the API. `generic` and any provider with a `base_url` may do without. Default: `OPENAI_API_KEY` or
    `ANTHROPIC_API_KEY` of the environment, unless there is a `base_url`."""


class ServerSection(Section):
    """`mcp.servers.<name>`."""

    transport: Literal["http", "stdio"] | None = None
    """How it is reached. Default: `http` with a `url`, `stdio` with a `command`."""
    url: SecretStr | None = None
    """http: address of the Streamable HTTP endpoint."""
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """http: sent with every request; one line of ASCII each."""
    command: SecretStr | None = None
    """stdio: the program."""
    args: tuple[SecretStr, ...] = ()
    """stdio: its arguments."""
    env: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """stdio: variables added to its environment."""
    cwd: SecretStr | None = None
    """stdio: its working directory, relative to the team folder. Default: the team folder."""


class McpSection(Section):
    """`mcp`."""

    servers: dict[str, ServerSection] = Field(default_factory=dict[str, ServerSection])
    """Downstream MCP servers by name: 1 to 64 of `A-Z a-z 0-9 _ -`."""


class ConfigFile(Section):
    """`fastagent.config.yaml`, with `fastagent.secrets.yaml` laid on it."""

    default_model: Model | None = None
    """The model of agents that name none."""
    model_capabilities: CapabilitiesSection | None = None
    """Capabilities of that model; published in the registry only when configured."""
    mcp: McpSection = McpSection()
    """Downstream MCP servers."""

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
