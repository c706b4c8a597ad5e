"""The journey of a turn and the background traffic as a list of edges: who sends what to whom, and how.

The trace of a turn and the network policies are checked against this list. An edge by `nats` is said through the
broker: both of its ends connect to the broker, and neither to the other. `what` of such an edge is a name in the
catalogue of contracts; of any other edge it is a word for people.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

type How = Literal["mcp", "http", "nats", "postgres", "redis"]

BROKER = "nats"

OUTSIDE = frozenset({"caller", "operator", "model", "data-agent", "coder"})
"""Participants outside of Pallas: people, their programs, models, and Coder with its workspaces."""


@dataclass(frozen=True)
class Edge:
    """`source` sends `what` to `destination`."""

    source: str
    destination: str
    how: How
    what: str


TURN = (
    Edge("caller", "agent-gateway", "mcp", "tools/call"),
    Edge("agent-gateway", "auth-resolver", "nats", "auth.resolve"),
    Edge("agent-gateway", "agent-worker", "nats", "turn.requested"),
    Edge("agent-worker", "agent-gateway", "nats", "turn.claim"),
    Edge("agent-worker", "model", "http", "model call"),
    Edge("agent-worker", "demo-tools", "mcp", "tools/call"),
    Edge("agent-worker", "library-search", "mcp", "tools/call"),
    Edge("library-search", "auth-resolver", "nats", "auth.resolve"),
    Edge("auth-resolver", "redis", "redis", "look-ups"),
    Edge("auth-resolver", "team-lifecycle", "nats", "auth.lookup"),
    Edge("team-lifecycle", "postgres", "postgres", "look-ups"),
    Edge("library-search", "postgres", "postgres", "documents"),
    Edge("agent-worker", "agent-gateway", "nats", "turn.event"),
    Edge("agent-worker", "agent-gateway", "nats", "turn.content"),
    Edge("agent-worker", "agent-gateway", "nats", "turn.outcome"),
)
"""One turn that uses every edge, in the order in which each is used first."""

DATA_TURN = (
    Edge("agent-gateway", "data-pool", "nats", "turn.requested"),
    Edge("data-pool", "agent-gateway", "nats", "turn.claim"),
    Edge("data-pool", "data-agent", "http", "agent.execute"),
    Edge("data-pool", "agent-gateway", "nats", "turn.event"),
    Edge("data-pool", "agent-gateway", "nats", "turn.content"),
    Edge("data-pool", "agent-gateway", "nats", "turn.outcome"),
)
"""What is different for a data agent. It is called at its endpoint, or over the WebSocket that it opened."""

PIPELINE_TURN = (
    Edge("caller", "pipelines", "http", "run, execute"),
    Edge("pipelines", "auth-resolver", "nats", "auth.resolve"),
    Edge("agent-gateway", "pipelines", "nats", "turn.requested"),
    Edge("pipelines", "agent-gateway", "nats", "turn.claim"),
    Edge("pipelines", "agent-worker", "nats", "turn.requested"),
    Edge("pipelines", "data-pool", "nats", "turn.requested"),
    Edge("agent-worker", "pipelines", "nats", "turn.claim"),
    Edge("agent-worker", "pipelines", "nats", "turn.content"),
    Edge("agent-worker", "pipelines", "nats", "turn.outcome"),
    Edge("data-pool", "pipelines", "nats", "turn.outcome"),
    Edge("pipelines", "agent-gateway", "nats", "turn.event"),
    Edge("pipelines", "agent-gateway", "nats", "turn.content"),
    Edge("pipelines", "agent-gateway", "nats", "turn.outcome"),
)
"""What is different for a pipeline: it is called at a gateway or over HTTP, and each call in it is a turn."""

FLEET_TURN = (
    Edge("agent-gateway", "fleet", "nats", "turn.requested"),
    Edge("fleet", "agent-gateway", "nats", "turn.claim"),
    Edge("fleet", "coder", "http", "workspaces, templates, builds"),
    Edge("fleet", "fleet", "nats", "turn.requested"),
    Edge("fleet", "coder", "http", "AgentAPI, through Coder's proxy of apps"),
    Edge("fleet", "agent-gateway", "nats", "turn.event"),
    Edge("fleet", "agent-gateway", "nats", "turn.content"),
    Edge("fleet", "agent-gateway", "nats", "turn.outcome"),
)
"""What is different for the fleet: it asks Coder, and makes a turn for each task, which it executes itself."""

CONSOLE = (
    Edge("operator", "workspaces", "http", "console"),
    Edge("workspaces", "postgres", "postgres", "workspaces, instances, conversations"),
    Edge("workspaces", "registry", "http", "catalogue"),
    Edge("workspaces", "team-lifecycle", "http", "teams and their workspaces"),
    Edge("workspaces", "agent-gateway", "mcp", "tools/call, get_health"),
    Edge("team-lifecycle", "workspaces", "nats", "lifecycle.changed"),
    Edge("workspaces", "agent-worker", "nats", "turn.requested"),
    Edge("workspaces", "agent-worker", "nats", "turn.claim"),
    Edge("agent-worker", "workspaces", "nats", "turn.event"),
)
"""What the console does: it is a client, which reaches agents over MCP and asks Mnemosyne over HTTP. Over the broker it
shows turns, and executes them again."""

BESIDE = (
    Edge("agent-worker", "agent-gateway", "nats", "agents"),
    Edge("agent-worker", "registry", "nats", "agents"),
    Edge("agent-worker", "health-monitor", "nats", "workers"),
    Edge("agent-gateway", "registry", "nats", "gateways"),
    Edge("agent-gateway", "agent-worker", "nats", "agent.read"),
    Edge("agent-gateway", "health-monitor", "nats", "health.check"),
    Edge("health-monitor", "agent-gateway", "nats", "health"),
    Edge("health-monitor", "registry", "nats", "health"),
    Edge("health-monitor", "model", "http", "probe"),
    Edge("health-monitor", "demo-tools", "mcp", "probe"),
    Edge("health-monitor", "library-search", "mcp", "probe"),
    Edge("team-lifecycle", "redis", "redis", "invalidated and refreshed look-ups"),
    Edge("team-lifecycle", "library-search", "nats", "lifecycle.changed"),
    Edge("data-agent", "data-pool", "http", "server.register, agent.heartbeat, answers"),
    Edge("data-agent", "agent-gateway", "http", "server.register, agent.heartbeat"),
    Edge("agent-gateway", "data-pool", "nats", "pool.ask"),
    Edge("data-pool", "auth-resolver", "nats", "auth.resolve"),
    Edge("data-pool", "agent-gateway", "nats", "agents"),
    Edge("data-pool", "registry", "nats", "agents"),
    Edge("data-pool", "health-monitor", "nats", "workers"),
    Edge("agent-worker", "pipelines", "nats", "agents"),
    Edge("agent-worker", "pipelines", "nats", "worker.alive"),
    Edge("agent-gateway", "pipelines", "nats", "gateways"),
    Edge("agent-gateway", "pipelines", "nats", "agent.read"),
    Edge("pipelines", "agent-gateway", "nats", "agents"),
    Edge("pipelines", "registry", "nats", "agents"),
    Edge("pipelines", "health-monitor", "nats", "workers"),
    Edge("fleet", "agent-gateway", "nats", "agents"),
    Edge("fleet", "agent-gateway", "nats", "resource.changed"),
    Edge("fleet", "registry", "nats", "agents"),
    Edge("fleet", "health-monitor", "nats", "workers"),
    Edge("fleet", "pipelines", "nats", "agents"),
    Edge("pipelines", "fleet", "nats", "turn.requested"),
    Edge("fleet", "pipelines", "nats", "turn.outcome"),
    Edge("caller", "registry", "http", "catalogue"),
    Edge("operator", "team-lifecycle", "http", "teams, users, libraries, keys"),
    Edge("operator", "library-search", "http", "documents"),
)
"""The background traffic, for which no turn waits."""

EDGES = (*TURN, *DATA_TURN, *PIPELINE_TURN, *FLEET_TURN, *CONSOLE, *BESIDE)

type Connection = tuple[str, str]
"""Who opens a connection to whom."""


def connections(edges: Iterable[Edge] = EDGES) -> frozenset[Connection]:
    """The connections that these edges open."""
    return frozenset(pair for edge in edges for pair in _opened(edge))


def _opened(edge: Edge) -> Iterable[Connection]:
    if edge.how == "nats":
        return (edge.source, BROKER), (edge.destination, BROKER)
    return ((edge.source, edge.destination),)
