"""The answers of the REST API, as the console and the command line get them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from workspaces.model import Health, JwtState, MessageStatus, TeamStatus


class Shape(BaseModel):
    """An answer, or a part of one."""

    model_config = ConfigDict(frozen=True)


class SessionView(Shape):
    """The login. `csrf` is sent back as `X-CSRF-Token` with every request.

    `turns`: the log of turns can be shown, because the broker is at hand.
    """

    account: str
    csrf: str
    version: str
    turns: bool


class OpenSession(Shape):
    """A session that lives. `current`: that of the request."""

    id: str
    begun_at: datetime
    used_at: datetime | None
    address: str
    browser: str
    current: bool


class OpenSessions(Shape):
    """All sessions, the one that was used last first."""

    sessions: list[OpenSession]


class LinkView(Shape):
    """A link that logs in once, until it expires."""

    url: str
    expires_at: datetime


class HealthView(Shape):
    """The cached health of an agent. `unknown` until it was checked for the first time."""

    status: Health
    message: str | None = None
    at: datetime | None = None


class Capabilities(Shape):
    """What the registry says about an agent's model."""

    model: str | None = None
    vision: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None


class DiscoveredAgent(Shape):
    """An agent in a registry. `icon` is a path of this service, which fetches the icon itself.

    `foreign`: the registry has it from another registry. `entry`: people begin with it; `starters`: messages to try.
    """

    server_id: str
    name: str
    title: str
    description: str | None = None
    version: str | None = None
    icon: str | None = None
    url: str
    capabilities: Capabilities = Capabilities()
    health: HealthView | None = None
    foreign: bool = False
    entry: bool = False
    starters: tuple[str, ...] = ()


class UnusableEntry(Shape):
    """An entry of a registry's document that cannot be used, and why."""

    name: str
    reason: str


class Believed(Shape):
    """What Mnemosyne answered about a team, at `at`; `active` None: it knows no such team.

    `error`: why it could not be compared with Mnemosyne since then, or told of a change.
    """

    active: bool | None
    name: str | None = None
    workspace_ids: tuple[str, ...] = ()
    at: datetime
    error: str | None = None


class InstanceView(Shape):
    """A registered instance. It never holds a token.

    `workspace_ids` are those it is attached to here. `drift`: Mnemosyne believes something else, in a sentence.
    """

    id: str
    name: str
    registry_url: str
    namespace: str | None
    created_at: datetime
    status: TeamStatus | None
    status_reason: str | None
    status_at: datetime | None
    jwt: JwtState
    has_agent_token: bool
    agents: tuple[DiscoveredAgent, ...]
    unusable: tuple[UnusableEntry, ...]
    last_fetched_at: datetime | None
    last_fetch_error: str | None
    workspace_ids: tuple[str, ...]
    pushed_workspaces: tuple[str, ...] | None
    pushed_at: datetime | None
    believed: Believed | None
    drift: str | None


class Instances(Shape):
    """All registered instances, by name."""

    instances: tuple[InstanceView, ...]


class Revealed(Shape):
    """The team JWT, once, and the YAML to put into the team's `fastagent.secrets.yaml` (auth contract, 9.1)."""

    jwt: str
    stanza: str
    file: str = "fastagent.secrets.yaml"


class WorkspaceView(Shape):
    """A workspace, with the ids of the instances attached to it."""

    id: str
    name: str
    created_at: datetime
    instance_ids: tuple[str, ...]
    conversations: int


class WorkspaceList(Shape):
    """All workspaces, by name."""

    workspaces: tuple[WorkspaceView, ...]


class AttachedInstance(Shape):
    """One attached team, and how the registry was fetched: `warning` None if it answered."""

    instance_id: str
    name: str
    agents: int
    warning: str | None = None


class Attached(Shape):
    """The teams attached to a workspace."""

    instances: tuple[AttachedInstance, ...]


class LibraryView(Shape):
    """A library, with the number of its documents."""

    library: str
    name: str
    documents: int


class TeamLibraries(Shape):
    """The libraries that a team reads. `error`: why that is not known."""

    instance_id: str
    name: str
    libraries: tuple[LibraryView, ...] = ()
    error: str | None = None


class WorkspaceLibraries(Shape):
    """What the teams of a workspace read."""

    teams: tuple[TeamLibraries, ...]


class Passage(Shape):
    """A passage of a document that was searched for."""

    title: str
    library: str
    text: str


class Passages(Shape):
    """What a team finds in its libraries."""

    team: str
    passages: tuple[Passage, ...]


class AgentView(Shape):
    """An agent that can be picked. `label` is `TeamName › AgentTitle`; `entry`, `starters` as of `DiscoveredAgent`."""

    instance_id: str
    server_id: str
    label: str
    team: str
    title: str
    description: str | None
    icon: str | None
    health: HealthView
    capabilities: Capabilities
    entry: bool
    starters: tuple[str, ...]


class EmptyPicker(Shape):
    """What to say, and where to go, while there is no agent to pick."""

    text: str
    link: str


class Picker(Shape):
    """The agents of a workspace, by label."""

    agents: tuple[AgentView, ...]
    empty: EmptyPicker | None = None


class AgentStatus(Shape):
    """The cached health of one agent of one instance."""

    instance_id: str
    instance: str
    server_id: str
    title: str
    health: HealthView


class AgentStatuses(Shape):
    """The cached health of all connected agents. `interval` is that of the checks, in seconds."""

    agents: tuple[AgentStatus, ...]
    interval: float


class ConversationView(Shape):
    """A conversation. `answering`: an agent is being called. Branches of one conversation have the same `root_id`."""

    id: str
    workspace_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    root_id: str | None = None
    answering: bool = False


class ConversationPage(Shape):
    """Conversations of a workspace, the latest first. `next` is the `before` of the next page."""

    conversations: tuple[ConversationView, ...]
    next: str | None = None


class FoundConversation(Shape):
    """A conversation that was searched for, with a part of the latest message that has the text, if one has it."""

    id: str
    workspace_id: str
    title: str
    updated_at: datetime
    excerpt: str | None


class FoundConversations(Shape):
    """Conversations that were searched for, the latest first."""

    conversations: tuple[FoundConversation, ...]


class ImageView(Shape):
    """An image of a message; its bytes are at `/api/v1/images/{id}`."""

    id: str
    mime_type: str
    bytes: int


class ProgressView(Shape):
    """The last status line of a running call (interface contract, section 5). `total` None: a spinner."""

    progress: float
    total: float | None
    message: str | None
    at: datetime


class QuestionView(Shape):
    """What an agent asks. `requested_schema` is a flat JSON Schema (MCP elicitation); `url` opens a page instead."""

    id: str
    message: str
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


class MessageView(Shape):
    """A message of a conversation. `revision` is the id of the event that brought it to browsers."""

    id: str
    conversation_id: str
    seq: int
    revision: int
    role: Literal["user", "assistant"]
    content: str
    status: MessageStatus
    created_at: datetime
    ended_at: datetime | None
    images: tuple[ImageView, ...] = ()
    agent_instance_id: str | None = None
    agent_server_id: str | None = None
    agent_title: str | None = None
    error_code: str | None = None
    error: str | None = None
    turn_id: str | None = None
    question: QuestionView | None = None
    remembers_from: int | None = None
    attempt: int = 0


class BranchView(Shape):
    """A branch: another conversation than `branch_of` from the message `branch_seq` on. The first one has neither."""

    id: str
    branch_of: str | None
    branch_seq: int | None
    updated_at: datetime


class MessagePage(Shape):
    """Messages of a conversation, the oldest first. `before` asks for the page of older ones; None: there is none.

    `branches` has this conversation and its other branches, the oldest first; it is empty if there are none.
    """

    conversation: ConversationView
    messages: tuple[MessageView, ...]
    before: int | None = None
    branches: tuple[BranchView, ...] = ()


class Sent(Shape):
    """A message was accepted. `reply_id` is the agent's reply, which `events` will bring."""

    conversation_id: str
    message_id: str
    reply_id: str
    events: str


class DeliveryView(Shape):
    """A team that is not known to be in sync with Mnemosyne, since the oldest change that Mnemosyne has not confirmed.

    `difference`: what Mnemosyne does not have, in a sentence; None if it is only not known. `error` is that of the last
    try. `next_try_at` None: it is refused, and not tried again before it is changed or all teams are compared.
    """

    instance_id: str
    instance_name: str
    since: datetime
    difference: str | None
    error: str | None
    tries: int
    next_try_at: datetime | None
    actor: str
    correlation: str


class Deliveries(Shape):
    """Teams that are not known to be in sync with Mnemosyne, the first to be so first. `waiting` is how many."""

    deliveries: tuple[DeliveryView, ...]
    waiting: int


class SettingsView(Shape):
    """The global settings. Times are seconds; `history_share` is the part of the context window that history may take.

    `history_messages` and `history_bytes` count for models whose window is not known.
    """

    health_interval: float
    reconcile_interval: float
    history_share: float
    history_messages: int
    history_bytes: int


class TurnLine(Shape):
    """One turn in the list. Durations are milliseconds; None while it runs or where the log does not say.

    `asked` is the beginning of the message, and `conversation` the title, if a conversation here has its answer.
    `error` is why it failed, in words.
    """

    id: str
    team: str
    agent: str
    tool: str | None
    caller: str | None
    state: str
    code: str | None = None
    requested_at: datetime | None
    ended_at: datetime | None = None
    queued_ms: float | None = None
    took_ms: float | None = None
    attempts: int = 0
    worker: str | None = None
    replay_of: str | None = None
    asked: str | None = None
    error: str | None = None
    conversation: str | None = None
    conversation_id: str | None = None
    workspace_id: str | None = None


class DearTurn(Shape):
    """What a turn has spent on models. `cost_nanos` is billionths of `currency`."""

    turn: TurnLine
    cost_nanos: int
    currency: str


class FailingAgent(Shape):
    """How often turns of an agent have failed with one code, and the latest of them."""

    team: str
    agent: str
    code: str
    error: str | None
    turns: int
    latest: str


class TurnDay(Shape):
    """The turns that ended since a time, a day ago or as far as the log was read; the worst of them first.

    `shortened`: there are more in the day than were read.
    """

    since: datetime
    shortened: bool
    turns: int
    failed: int
    slowest: tuple[TurnLine, ...]
    dearest: tuple[DearTurn, ...]
    failing: tuple[FailingAgent, ...]


class TurnPage(Shape):
    """Turns, the latest first. `next` is the `until` of the next page."""

    turns: tuple[TurnLine, ...]
    next: datetime | None = None


type BarKind = Literal["queue", "attempt", "journal", "step", "model", "tool", "agent", "content", "cancel", "outcome"]


class Bar(Shape):
    """One row of a waterfall. `after_ms` is counted from the request; `took_ms` None: it has not ended, or is a moment.

    `parent` is the `id` of the bar that contains it. `turn_id` leads to the turn of a sub-agent of the platform.
    `cost_nanos` is billionths of `currency`; None: the call had no price.
    """

    id: int
    parent: int | None
    kind: BarKind
    what: str
    note: str = ""
    after_ms: float
    took_ms: float | None
    attempt: int = 0
    failed: bool = False
    taken_over: bool = False
    turn_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_nanos: int | None = None
    currency: str | None = None


class TurnTimes(Shape):
    """Where the time went, in milliseconds; parallel calls count each, `rest` is outside all of them."""

    total: float
    queued: float
    models: float
    model_calls: int
    tools: float
    tool_calls: int
    rest: float


class TurnContent(Shape):
    """What was asked and answered. `expired`: the log no longer has it."""

    asked: dict[str, Any] | None
    answer: Any = None
    text: str = ""
    expired: bool = False


class TurnView(Shape):
    """One turn as a waterfall. `message_id` and `conversation_id` are set if a conversation here has its answer.

    `parent_id` is the turn that made this one, as far as its request is stored.
    """

    turn: TurnLine
    model: str | None = None
    parent_id: str | None = None
    bars: tuple[Bar, ...]
    times: TurnTimes
    trace: str | None = None
    content: TurnContent | None = None
    content_until: datetime | None = None
    fault: str | None = None
    can_replay: bool = False
    why_not: str | None = None
    conversation_id: str | None = None
    workspace_id: str | None = None
    message_id: str | None = None


class TurnAgent(Shape):
    """An agent of the platform that turns can be sent to. `model` None: it has none that could be replaced."""

    team: str
    agent: str
    title: str
    model: str | None


class TurnModels(Shape):
    """The models of all agents, and the agents. A team has the models of its own agents, and `offline`."""

    models: tuple[str, ...]
    agents: tuple[TurnAgent, ...]


class Replayed(Shape):
    """The turn that executes another one again."""

    turn_id: str


class Comparison(Shape):
    """Two turns side by side. `equal` None: one of the answers is no longer stored."""

    old: TurnView
    new: TurnView
    equal: bool | None
