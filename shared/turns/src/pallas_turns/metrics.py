"""The metrics of calls (those that became turns, were refused, are followed) and of executors (slots, attempts)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pallas_contracts.turns import TurnError, TurnRequested
from pallas_runtime.metrics import AGENT, TURN_SECONDS, AgentSeries, ByAgent, EndedTurns, seconds_between
from pallas_turns.claims import TurnRef
from pallas_turns.model import Limit, Refusal
from pallas_turns.pull import Slots

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
        self._turns_accepted.count(request.team, request.agent)

    def call_refused(self, team: str, agent: str, refusal: Refusal) -> None:
        """Count a call that was refused."""
        self._calls_refused.count(team, agent, refusal.limit or refusal.code)

    def budget_applies(self, team: str, share: Callable[[], float]) -> None:
        """Report at every scrape what part of a team's budget is used."""
        self._budget_used.labels(team).set_function(share)

    def turn_joined(self, request: TurnRequested) -> None:
        """Count a call that joined the turn of its idempotency key."""
        self._turns_joined.count(request.team, request.agent)

    def stream_resumed(self, ref: TurnRef) -> None:
        """Count a stream that was resumed."""
        self._streams_resumed.count(ref.team, ref.agent)

    def relaying(self, ref: TurnRef) -> Callable[[], None]:
        """A function that counts an event of the turn that was passed on to a caller."""
        return partial(self._events_relayed.count, ref.team, ref.agent)


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


@dataclass(frozen=True)
class Metrics:
    """The instruments, made by `make_metrics`. Series by agent exist for agents that are hosted here."""

    agents: AgentSeries
    turns: EndedTurns
    _slots: Gauge
    _busy: Gauge
    _held: Gauge
    _waited: ByAgent[Histogram]
    _attempts: ByAgent[Counter]
    _letters: ByAgent[Counter]

    def watch(self, slots: Slots, held: Callable[[], bool]) -> None:
        """Report these slots, and whether turns are held, at every scrape."""
        self._held.set_function(held)
        self._slots.set_function(lambda: slots.total)
        self._busy.set_function(lambda: slots.busy)

    def attempt_begins(self, request: TurnRequested, attempt: int, at: datetime) -> None:
        """Count an attempt; the first one also observes the turn's time in the queue."""
        agent = request.team, request.agent
        self._attempts.count(*agent, "first" if attempt == 1 else "again")
        if attempt == 1 and (waited := self._waited.of(*agent)) is not None:
            waited.observe(seconds_between(request.requested_at, at))

    def letter_kept(self, team: str, agent: str, code: TurnError) -> None:
        """Count a dead letter."""
        self._letters.count(team, agent, code)


def make_metrics(registry: CollectorRegistry, turns: EndedTurns | None = None) -> Metrics:
    """Register the instruments. `turns`: those of a process that makes turns, too, and has registered them before."""
    agents = AgentSeries()
    waited = Histogram(
        "pallas_turn_queue_wait_seconds",
        "Time from the request of a turn to its first attempt",
        AGENT,
        registry=registry,
        buckets=TURN_SECONDS,
    )
    attempts = Counter(
        "pallas_turn_attempts", "Attempts that began: first, or again", [*AGENT, "attempt"], registry=registry
    )
    letters = Counter("pallas_dead_letters", "Turns that could not be handled", [*AGENT, "code"], registry=registry)
    return Metrics(
        agents,
        turns or EndedTurns(registry, agents),
        Gauge("pallas_worker_slots", "Turns that the worker may run at a time", registry=registry),
        Gauge("pallas_worker_busy_slots", "Turns that the worker runs", registry=registry),
        Gauge(
            "pallas_turns_held",
            "1 while the worker takes no turns, because of a restore or PALLAS_HOLD",
            registry=registry,
        ),
        agents.keep(waited),
        agents.keep(attempts, "first", "again"),
        agents.keep(letters, "undecodable", "worker_lost"),
    )
