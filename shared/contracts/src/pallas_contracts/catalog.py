"""The catalogue: every subject, stream, bucket and question of Pallas, once.

Documentation, JSON Schemas and the broker's permissions are generated from here.
"""

from pydantic import Field

from pallas_contracts.agents import (
    AgentDefinition,
    AgentRead,
    AgentReadAnswer,
    GatewayPresence,
    ResourceChanged,
    WorkerAlive,
    WorkerPresence,
    read_definition,
)
from pallas_contracts.auth import LifecycleChanged, LookedUp, Lookups, ResolveBearer, Resolved
from pallas_contracts.backups import Hold, TurnDecided
from pallas_contracts.changes import WorkspaceChanged
from pallas_contracts.contract import Blob, Bucket, Contract, Question, Saved, Stream, Template
from pallas_contracts.costs import GrantedBudget, Spending
from pallas_contracts.data_agents import DataAgent, Heartbeat, PoolAnswer, PoolRequest
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.health import AgentHealth, HealthAsked, ProbeResult
from pallas_contracts.ids import Token
from pallas_contracts.message import Message
from pallas_contracts.pipelines import CachedAnswer, Namespace, PipelineImage, StoredPipeline, Suspension
from pallas_contracts.turns import (
    DeadLetter,
    DeadOriginal,
    TurnAsked,
    TurnClaim,
    TurnEvents,
    TurnOutcome,
    TurnRequested,
    WriteTest,
)

GATEWAY = "agent-gateway"
WORKER = "agent-worker"
REGISTRY = "registry"
MONITOR = "health-monitor"
LIFECYCLE = "team-lifecycle"
RESOLVER = "auth-resolver"
SEARCH = "library-search"
POOL = "data-pool"
PIPELINES = "pipelines"
WORKSPACES = "workspaces"
FLEET = "fleet"
CLI = "cli"
BACKUP = "backup"
RESTORE = "restore"

SERVICES = (GATEWAY, WORKER, REGISTRY, MONITOR, LIFECYCLE, RESOLVER, SEARCH, POOL, PIPELINES, WORKSPACES, FLEET)
SPEAKERS = (*SERVICES, CLI, BACKUP, RESTORE)
"""All that have a user at the broker. The CLI is the user of operators. `backup` may only read, by snapshots; `restore`
replaces streams, and its seed is kept away from the platform."""

EXECUTORS = (WORKER, POOL, PIPELINES, FLEET)
"""Services that execute turns."""

SUBMITTERS = (GATEWAY, PIPELINES)
"""Services that make turns for callers: they apply the limits of all agents, and follow and cancel turns of all."""

PER_TEAM = frozenset((WORKER, POOL, FLEET))
"""Services of which each process serves some teams, and may read the data of these teams only."""

DATA_TEAM = "data"
"""The team of all data agents. The pool serves this team only, and no team folder may have its name."""

PIPELINES_TEAM = "pipelines"
"""The team of the agents that execute pipelines. No team folder may have its name."""

CONSTELLATION = "constellation"
PUBLISHED = "published"
"""The agents of that team: the one that checks, stores and executes programs; the one whose tools are pipelines."""

FLEET_TEAM = "fleet"
"""The team of the agents of coding agents. No team folder may have its name."""

FLEET_AGENT = "fleet"
FLEET_TASKS_AGENT = "tasks"
"""The agents of that team: the one that callers use; the one whose turns are the tasks, which only the first makes."""

DATABASES = {LIFECYCLE: "team_lifecycle", SEARCH: "library_search", WORKSPACES: "workspaces"}
"""The services with a Postgres database, and its name, in the order in which a backup saves them."""

PRESENCE_TTL = 6.0
"""Seconds after which the presence of a worker or gateway expires; they write it three times in that time."""

TURN_QUEUE = Stream(
    "TURN_QUEUE",
    ("pallas.v1.turn.requested.*.*.*.*",),
    owner=GATEWAY,
    retention="workqueue",
    refuse_when_full=True,
    max_per_subject=1,
    live="pallas.v1.live.queue",
    removers=(*SUBMITTERS, CLI),
    counters=(*SUBMITTERS, MONITOR, CLI),
    saved=Saved.QUEUE,
    summary="Turns that wait for a worker or run on one; a turn leaves when it is concluded.",
)

TURN_LOG = Stream(
    "TURN_LOG",
    (
        "pallas.v1.turn.claim.*.*.*",
        "pallas.v1.turn.event.*.*.*",
        "pallas.v1.turn.content.*.*.*",
        "pallas.v1.turn.outcome.*.*.*",
        "pallas.v1.kept.request.*.*.*",
        "pallas.v1.write.test.*",
        "pallas.v1.decided.turn.*.*.*",
    ),
    owner=GATEWAY,
    max_age=7 * 86_400.0,
    live="pallas.v1.live",
    removers=(GATEWAY, CLI),
    counters=(MONITOR,),
    saved=Saved.LOG,
    summary="The log of all turns: claims, events, content (which expires earlier) and outcomes.",
)

DEAD_LETTERS = Stream(
    "DEAD_LETTERS",
    ("pallas.v1.dead.letter.*.*.*", "pallas.v1.dead.original.*.*.*"),
    owner=GATEWAY,
    max_age=7 * 86_400.0,
    live="pallas.v1.live",
    removers=(CLI,),
    counters=(MONITOR,),
    summary="Turns that could not be handled, with the reason; their messages expire earlier, like all content.",
)

CHANGES = Stream(
    "CHANGES",
    ("pallas.v1.lifecycle.*.*",),
    owner=LIFECYCLE,
    duplicate_window=3600.0,
    live="pallas.v1.live",
    counters=(MONITOR,),
    saved=Saved.CHANGES,
    summary="Every change to teams, tokens, keys, users, memberships and libraries, in order; kept for good.",
)

WORKSPACE_CHANGES = Stream(
    "WORKSPACES",
    ("pallas.v1.workspace.*.*",),
    owner=WORKSPACES,
    duplicate_window=3600.0,
    live="pallas.v1.live",
    counters=(MONITOR,),
    saved=Saved.CHANGES,
    summary="Every change to workspaces, registered instances and what is attached, in order; kept for good.",
)

TURN_OBJECTS = Stream(
    "TURN_OBJECTS",
    ("pallas.v1.object.part.*.*.*.*.*",),
    owner=GATEWAY,
    max_age=8 * 86_400.0,
    max_per_subject=1,
    removers=(*SUBMITTERS, CLI),
    counters=(MONITOR,),
    summary="Offloaded content, in parts. It is removed with the turn's content.",
)

STREAMS: tuple[Stream, ...] = (
    TURN_QUEUE,
    TURN_LOG,
    DEAD_LETTERS,
    CHANGES,
    WORKSPACE_CHANGES,
    TURN_OBJECTS,
)

TURN_REQUESTED = Contract(
    "turn.requested",
    Template("pallas.v1.turn.requested.{team}.{agent}.{caller}.{turn}"),
    TurnRequested,
    owners=(*SUBMITTERS, WORKSPACES, FLEET, CLI),
    readers=(GATEWAY, *EXECUTORS, WORKSPACES, CLI),
    stream=TURN_QUEUE,
    summary="A caller calls a tool of an agent. `caller` is the token of its principal.",
)
TURN_CLAIM = Contract(
    "turn.claim",
    Template("pallas.v1.turn.claim.{team}.{agent}.{turn}"),
    TurnClaim,
    owners=(*EXECUTORS, GATEWAY, WORKSPACES, CLI),
    readers=(GATEWAY, *EXECUTORS, WORKSPACES, CLI),
    stream=TURN_LOG,
    summary="A worker claims the turn, or somebody cancels it. The last one decides; no claim follows a cancel.",
)
TURN_EVENT = Contract(
    "turn.event",
    Template("pallas.v1.turn.event.{team}.{agent}.{turn}"),
    TurnEvents,
    owners=EXECUTORS,
    readers=(GATEWAY, *EXECUTORS, MONITOR, WORKSPACES, CLI),
    stream=TURN_LOG,
    summary="Events of an attempt, without content.",
)
TURN_CONTENT = Contract(
    "turn.content",
    Template("pallas.v1.turn.content.{team}.{agent}.{turn}"),
    TurnEvents,
    owners=(*EXECUTORS, CLI),
    readers=(GATEWAY, *EXECUTORS, WORKSPACES, CLI),
    stream=TURN_LOG,
    summary="Content of an attempt; expires earlier than the rest.",
)
TURN_OUTCOME = Contract(
    "turn.outcome",
    Template("pallas.v1.turn.outcome.{team}.{agent}.{turn}"),
    TurnOutcome,
    owners=(*EXECUTORS, GATEWAY, CLI),
    readers=(GATEWAY, *EXECUTORS, WORKSPACES, CLI),
    stream=TURN_LOG,
    summary="How the turn ended, once. Only the attempt with the last claim can write it.",
)
KEPT_REQUEST = Contract(
    "kept.request",
    Template("pallas.v1.kept.request.{team}.{agent}.{turn}"),
    TurnRequested,
    owners=EXECUTORS,
    readers=(PIPELINES, WORKSPACES, CLI),
    stream=TURN_LOG,
    summary="What a turn that has ended was asked, without the caller's ids: content, kept for a replay.",
)
TURN_DECIDED = Contract(
    "decided.turn",
    Template("pallas.v1.decided.turn.{team}.{agent}.{turn}"),
    TurnDecided,
    owners=(CLI,),
    readers=(WORKSPACES, CLI),
    stream=TURN_LOG,
    summary="After a restore: whether a turn of the backup is to be executed, cancelled, or marked as done.",
)
WRITE_TEST = Contract(
    "write.test",
    Template("pallas.v1.write.test.{instance}"),
    WriteTest,
    owners=SUBMITTERS,
    readers=(*SUBMITTERS, CLI),
    stream=TURN_LOG,
    summary="Whether the log stores messages; expires at once.",
)
DEAD_LETTER = Contract(
    "dead.letter",
    Template("pallas.v1.dead.letter.{team}.{agent}.{letter}"),
    DeadLetter,
    owners=EXECUTORS,
    readers=(GATEWAY, *EXECUTORS, CLI),
    stream=DEAD_LETTERS,
    summary="A turn could not be handled, and why.",
)
DEAD_ORIGINAL = Contract(
    "dead.original",
    Template("pallas.v1.dead.original.{team}.{agent}.{letter}"),
    DeadOriginal,
    owners=EXECUTORS,
    readers=(CLI,),
    stream=DEAD_LETTERS,
    summary="The message of a dead letter as it was: content, expires earlier.",
)
LIFECYCLE_CHANGED = Contract(
    "lifecycle.changed",
    Template("pallas.v1.lifecycle.{kind}.{action}"),
    LifecycleChanged,
    owners=(LIFECYCLE,),
    readers=(SEARCH, LIFECYCLE, WORKSPACES, CLI),
    stream=CHANGES,
    summary="Who may read what has changed: `team.provisioned`, `team.rotated`, `token.revoked`, `key.retired` ...",
)

WORKSPACE_CHANGED = Contract(
    "workspace.changed",
    Template("pallas.v1.workspace.{kind}.{action}"),
    WorkspaceChanged,
    owners=(WORKSPACES,),
    readers=(WORKSPACES, CLI),
    stream=WORKSPACE_CHANGES,
    summary="A workspace, an instance or an attachment has changed: `instance.registered`, `workspace.deleted` ...",
)

WORKER_ALIVE = Contract(
    "worker.alive",
    Template("pallas.v1.worker.alive.{worker}"),
    WorkerAlive,
    owners=EXECUTORS,
    readers=(*SUBMITTERS, FLEET, RESTORE),
    stream=None,
    summary="A heartbeat of a worker's process. Not stored: a missing heartbeat is what counts.",
)

RESOURCE_CHANGED = Contract(
    "resource.changed",
    Template("pallas.v1.resource.changed.{team}.{agent}"),
    ResourceChanged,
    owners=EXECUTORS,
    readers=(GATEWAY,),
    stream=None,
    summary="A resource of an agent has changed. Not stored: whoever may have missed one takes all for changed.",
)

CONTRACTS: tuple[
    Contract[TurnRequested]
    | Contract[TurnClaim]
    | Contract[TurnEvents]
    | Contract[TurnOutcome]
    | Contract[TurnDecided]
    | Contract[WriteTest]
    | Contract[DeadLetter]
    | Contract[DeadOriginal]
    | Contract[LifecycleChanged]
    | Contract[WorkspaceChanged]
    | Contract[WorkerAlive]
    | Contract[ResourceChanged],
    ...,
] = (
    TURN_REQUESTED,
    TURN_CLAIM,
    TURN_EVENT,
    TURN_CONTENT,
    TURN_OUTCOME,
    KEPT_REQUEST,
    TURN_DECIDED,
    WRITE_TEST,
    DEAD_LETTER,
    DEAD_ORIGINAL,
    LIFECYCLE_CHANGED,
    WORKSPACE_CHANGED,
    WORKER_ALIVE,
    RESOURCE_CHANGED,
)

OBJECT_PART = Blob(
    "object.part",
    Template("pallas.v1.object.part.{team}.{agent}.{turn}.{name}.{part}"),
    owners=(GATEWAY, *EXECUTORS, WORKSPACES, CLI),
    readers=(GATEWAY, *EXECUTORS, WORKSPACES, CLI),
    stream=TURN_OBJECTS,
    summary="A part of what `Offloaded` names, counted from 0. Content.",
)

BLOBS: tuple[Blob, ...] = (OBJECT_PART,)


class LegacyCall(Message):
    """Which turn a request id of a handshake-era session stands for, and what its cancel repeats of it."""

    team: Token
    agent: Token
    turn_id: Token
    asked: TurnAsked | None = None


class LegacySession(Message):
    """What a handshake-era session has set for its later requests. `log_level` is the least level it wants.

    `subscriptions` are the URIs of resources whose changes it wants, by `{team}.{agent}`. `caller` is the token of the
    caller that set them (`Principal.token`).
    """

    log_level: str | None = None
    subscriptions: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    caller: str | None = None


AGENTS = Bucket(
    "agents",
    Template("{team}.{agent}"),
    AgentDefinition,
    owner=GATEWAY,
    writers=(*EXECUTORS, CLI),
    readers=(GATEWAY, *EXECUTORS, REGISTRY, MONITOR, WORKSPACES, CLI),
    summary="Definitions: what can be called. They stay while no worker runs, until the team retires them.",
    reads=read_definition,
)
WORKERS = Bucket(
    "workers",
    Template("{worker}"),
    WorkerPresence,
    owner=GATEWAY,
    writers=EXECUTORS,
    readers=(GATEWAY, *EXECUTORS, MONITOR, WORKSPACES, CLI, RESTORE),
    ttl=PRESENCE_TTL,
    saved=Saved.NEVER,
    summary="The presence of workers.",
)
GATEWAYS = Bucket(
    "gateways",
    Template("{gateway}"),
    GatewayPresence,
    owner=GATEWAY,
    writers=(GATEWAY,),
    readers=(*SUBMITTERS, REGISTRY, WORKSPACES, CLI, RESTORE),
    ttl=PRESENCE_TTL,
    saved=Saved.NEVER,
    summary="The presence of gateways, with the dedicated ports that each has bound.",
)
PROBES = Bucket(
    "probes",
    Template("{key}"),
    ProbeResult,
    owner=MONITOR,
    writers=(MONITOR,),
    readers=(MONITOR, CLI),
    saved=Saved.NEVER,
    summary="The last probe of each dependency.",
)
HEALTH = Bucket(
    "health",
    Template("{team}.{agent}"),
    AgentHealth,
    owner=MONITOR,
    writers=(MONITOR,),
    readers=(GATEWAY, REGISTRY, MONITOR, PIPELINES, CLI),
    saved=Saved.NEVER,
    summary="The folded health of each agent.",
)
BUDGETS = Bucket(
    "budgets",
    Template("{kind}.{name}"),
    GrantedBudget,
    owner=GATEWAY,
    writers=(CLI, GATEWAY),
    readers=(*SUBMITTERS, CLI),
    summary="What teams and callers may spend in a day, as operators have set it. Gateways write lost ones again.",
)
SPENDING = Bucket(
    "spending",
    Template("{day}.{team}.{caller}"),
    Spending,
    owner=GATEWAY,
    writers=(MONITOR,),
    readers=(*SUBMITTERS, MONITOR, CLI),
    ttl=2 * 86_400.0,
    saved=Saved.NEVER,
    summary="What has been spent on models in a day, by team and caller. It is made again from the log.",
)
CALLS = Bucket(
    "calls",
    Template("{session}.{request}"),
    LegacyCall,
    owner=GATEWAY,
    writers=(GATEWAY,),
    readers=(GATEWAY, CLI),
    ttl=3600.0,
    most_bytes=256 * 2**20,
    saved=Saved.NEVER,
    summary="Turns of handshake-era requests by session and request id, so that any replica can cancel them.",
)
SESSIONS = Bucket(
    "sessions",
    Template("{session}"),
    LegacySession,
    owner=GATEWAY,
    writers=(GATEWAY,),
    readers=(GATEWAY, CLI),
    ttl=86_400.0,
    saved=Saved.NEVER,
    summary="Settings of handshake-era sessions, which hold for later requests at any replica.",
)
DATA_AGENTS = Bucket(
    "data_agents",
    Template("{agent}"),
    DataAgent,
    owner=POOL,
    writers=(POOL,),
    readers=(POOL, CLI),
    summary="Registrations of data agents: who owns an agent, how it is reached, and its definition.",
)
HEARTBEATS = Bucket(
    "heartbeats",
    Template("{agent}"),
    Heartbeat,
    owner=POOL,
    writers=(POOL,),
    readers=(POOL, CLI),
    saved=Saved.NEVER,
    summary="The last heartbeat of each data agent.",
)
PIPELINE_NAMES = Bucket(
    "pipeline_names",
    Template("{name}"),
    StoredPipeline,
    owner=PIPELINES,
    writers=(PIPELINES,),
    readers=(PIPELINES, CLI),
    summary="Stored pipelines by a digest of their full name: versions, and what is published of them.",
)
PIPELINE_IMAGES = Bucket(
    "pipeline_images",
    Template("{owner}.{hash}"),
    PipelineImage,
    owner=PIPELINES,
    writers=(PIPELINES,),
    readers=(PIPELINES, CLI),
    summary="Sources of stored pipelines, by their owner and structural hash. Content, kept until it is deleted.",
)
PIPELINE_DRAFTS = Bucket(
    "pipeline_drafts",
    Template("{owner}.{hash}"),
    PipelineImage,
    owner=PIPELINES,
    writers=(PIPELINES,),
    readers=(PIPELINES, CLI),
    ttl=86_400.0,
    summary="Sources of pipelines that were compiled without a name, by owner and structural hash. Content.",
)
PIPELINE_NAMESPACES = Bucket(
    "pipeline_namespaces",
    Template("{namespace}"),
    Namespace,
    owner=PIPELINES,
    writers=(PIPELINES,),
    readers=(PIPELINES, CLI),
    summary="Whose the short name of a namespace is: the first identity that used it.",
)
SUSPENSIONS = Bucket(
    "suspensions",
    Template("{owner}.{turn}"),
    Suspension,
    owner=PIPELINES,
    writers=(PIPELINES,),
    readers=(PIPELINES, CLI),
    ttl=86_400.0,
    summary="Executions that wait for inputs, with what was computed so far. Content.",
)
PIPELINE_CACHE = Bucket(
    "pipeline_cache",
    Template("{key}"),
    CachedAnswer,
    owner=PIPELINES,
    writers=(PIPELINES,),
    readers=(PIPELINES, CLI),
    ttl=3600.0,
    most_bytes=1 * 2**30,
    saved=Saved.NEVER,
    summary='Answers of calls with `cache_backend: "shared"`, for at most an hour. Content.',
)
FLEET_AGENTS = Bucket(
    "fleet_agents",
    Template("{agent}"),
    FleetAgent,
    owner=FLEET,
    writers=(FLEET,),
    readers=(FLEET, CLI),
    summary="Coding agents by name: what they were made for, and the task that each has now. Content.",
)
FLEET_TASKS = Bucket(
    "fleet_tasks",
    Template("{workspace}.{number}"),
    FleetTask,
    owner=FLEET,
    writers=(FLEET,),
    readers=(FLEET, CLI),
    summary="Tasks that have ended, numbered within their agent's workspace. Content, kept until the agent is deleted.",
)

HOLDS = Bucket(
    "holds",
    Template("{hold}"),
    Hold,
    owner=GATEWAY,
    writers=(CLI, RESTORE, GATEWAY),
    readers=(GATEWAY, *EXECUTORS, CLI, RESTORE),
    saved=Saved.NEVER,
    summary="Why no turn is executed: a restore writes it, an operator releases it. Gateways write lost ones again.",
)
RESTORE_HOLD = "restore"
"""The key of the hold of a restore."""

BUCKETS: tuple[
    Bucket[AgentDefinition]
    | Bucket[WorkerPresence]
    | Bucket[GatewayPresence]
    | Bucket[ProbeResult]
    | Bucket[AgentHealth]
    | Bucket[GrantedBudget]
    | Bucket[Spending]
    | Bucket[LegacyCall]
    | Bucket[LegacySession]
    | Bucket[DataAgent]
    | Bucket[Heartbeat]
    | Bucket[StoredPipeline]
    | Bucket[PipelineImage]
    | Bucket[Namespace]
    | Bucket[Suspension]
    | Bucket[CachedAnswer]
    | Bucket[FleetAgent]
    | Bucket[FleetTask]
    | Bucket[Hold],
    ...,
] = (
    AGENTS,
    WORKERS,
    GATEWAYS,
    PROBES,
    HEALTH,
    BUDGETS,
    SPENDING,
    CALLS,
    SESSIONS,
    DATA_AGENTS,
    HEARTBEATS,
    PIPELINE_NAMES,
    PIPELINE_IMAGES,
    PIPELINE_DRAFTS,
    PIPELINE_NAMESPACES,
    SUSPENSIONS,
    PIPELINE_CACHE,
    FLEET_AGENTS,
    FLEET_TASKS,
    HOLDS,
)

READ_AGENT = Question(
    "agent.read",
    Template("pallas.v1.agent.read.{team}.{agent}"),
    AgentRead,
    AgentReadAnswer,
    askers=(GATEWAY,),
    answerers=(WORKER, PIPELINES, FLEET),
    timeout=10.0,
    summary="A prompt, resource or completion, which a worker of the agent answers.",
)
CHECK_HEALTH = Question(
    "health.check",
    Template("pallas.v1.health.check.{team}.{agent}"),
    HealthAsked,
    AgentHealth,
    askers=(GATEWAY, CLI),
    answerers=(MONITOR,),
    timeout=0.8,
    summary="Probe what an agent depends on now, and fold it.",
)

LOOK_UP = Question(
    "auth.lookup",
    Template("pallas.v1.auth.lookup"),
    Lookups,
    LookedUp,
    askers=(RESOLVER,),
    answerers=(LIFECYCLE,),
    timeout=3.0,
    summary="Look-ups of keys, teams and tokens, from Postgres.",
)
RESOLVE = Question(
    "auth.resolve",
    Template("pallas.v1.auth.resolve"),
    ResolveBearer,
    Resolved,
    askers=(GATEWAY, SEARCH, POOL, PIPELINES),
    answerers=(RESOLVER,),
    timeout=5.0,
    summary="The principal of a bearer, and the libraries that it may read.",
)
ASK_POOL = Question(
    "pool.ask",
    Template("pallas.v1.pool.ask"),
    PoolRequest,
    PoolAnswer,
    askers=(GATEWAY, CLI),
    answerers=(POOL,),
    timeout=5.0,
    summary="A data agent registers, sends a heartbeat or unregisters, at a gateway; or an operator retires it.",
)

QUESTIONS: tuple[
    Question[AgentRead, AgentReadAnswer]
    | Question[HealthAsked, AgentHealth]
    | Question[Lookups, LookedUp]
    | Question[ResolveBearer, Resolved]
    | Question[PoolRequest, PoolAnswer],
    ...,
] = (
    READ_AGENT,
    CHECK_HEALTH,
    LOOK_UP,
    RESOLVE,
    ASK_POOL,
)
