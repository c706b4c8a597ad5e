"""Metrics of calls: those that became turns or were refused, and the turns that are followed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.model import Limit, Refusal
from pallas_contracts.turns import TurnRequested
from pallas_runtime.metrics import AGENT, AgentSeries, ByAgent, EndedTurns, count

REFUSED_FOR: tuple[str, ...] = (*get_args(Limit.__value__), "agent_failed", "invalid_arguments")


@dataclass(frozen=True)
class CallMetrics:
    """The instruments. Made by `make_call_metrics`; `agents` are the agents with series."""

    agents: AgentSeries
    turns: EndedTurns
    in_flight: Gauge
    _budget_used: Gauge
    _turns_accepted: ByAgent[Counter]
    _calls_refused: ByAgent[Counter]
    _events_relayed: ByAgent[Counter]
    _turns_joined: ByAgent[Counter]
    _streams_resumed: ByAgent[Counter]

    def turn_accepted(self, request: TurnRequested) -> None:
        """Count a turn that is in its queue."""
        count(self._turns_accepted.of(request.team, request.agent))

    def call_refused(self, team: str, agent: str, refusal: Refusal) -> None:
        """Count a call that was refused."""
        count(self._calls_refused.of(team, agent, refusal.limit or refusal.code))

    def budget_applies(self, team: str, share: Callable[[], float]) -> None:
        """Report at every scrape what part of a team's budget is used."""
        self._budget_used.labels(team).set_function(share)

    def turn_joined(self, request: TurnRequested) -> None:
        """Count a call that joined the turn of its idempotency key."""
        count(self._turns_joined.of(request.team, request.agent))

    def stream_resumed(self, ref: TurnRef) -> None:
        """Count a stream that was resumed."""
        count(self._streams_resumed.of(ref.team, ref.agent))

    def relaying(self, ref: TurnRef) -> Callable[[], None]:
        """A function that counts an event of the turn that was passed on to a caller."""
        return partial(count, self._events_relayed.of(ref.team, ref.agent))


def make_call_metrics(registry: CollectorRegistry) -> CallMetrics:
    """Register the instruments."""
    agents = AgentSeries()

    def by_agent(name: str, meaning: str) -> ByAgent[Counter]:
        return agents.keep(Counter(name, meaning, AGENT, registry=registry))

    refused = Counter("pallas_calls_refused", "Calls that became no turn", [*AGENT, "reason"], registry=registry)
    return CallMetrics(
        agents,
        EndedTurns(registry, agents),
        Gauge("pallas_turns_in_flight", "Turns put into their queues or followed here", registry=registry),
        Gauge(
            "pallas_budget_used_ratio",
            "Used part of today's budget of a team that is called here",
            ["team"],
            registry=registry,
        ),
        by_agent("pallas_turns_accepted", "Turns that were put into their queue"),
        agents.keep(refused, *REFUSED_FOR),
        _events_relayed=by_agent("pallas_events_relayed", "Events of turns that were passed on to callers"),
        _turns_joined=by_agent("pallas_turns_joined", "Calls answered with a turn that was there already"),
        _streams_resumed=by_agent("pallas_streams_resumed", "Streams resumed with Last-Event-ID"),
    )
