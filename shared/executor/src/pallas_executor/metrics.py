"""The metrics of an executor: its slots, its attempts, and the turns that it ends."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pallas_contracts.turns import TurnError, TurnRequested
from pallas_executor.slots import Slots
from pallas_runtime.metrics import AGENT, TURN_SECONDS, AgentSeries, ByAgent, EndedTurns, count, seconds_between


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
        count(self._attempts.of(*agent, "first" if attempt == 1 else "again"))
        if attempt == 1 and (waited := self._waited.of(*agent)) is not None:
            waited.observe(seconds_between(request.requested_at, at))

    def letter_kept(self, team: str, agent: str, code: TurnError) -> None:
        """Count a dead letter."""
        count(self._letters.of(team, agent, code))


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
