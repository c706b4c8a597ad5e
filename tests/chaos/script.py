"""What happens in a storm, made from its seed alone: which calls are made, and which blows fall when."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

type Kind = Literal["plain", "keyed", "legacy", "cancelled", "legacy_cancelled"]
"""How a call is made: in the modern or the handshake era, and whether its caller cancels it. A keyed caller sends an
idempotency key, and calls again with it when its stream breaks; one of the handshake era resumes its stream."""

type Target = Literal["worker", "fast-agent worker", "gateway", "pool", "pipelines", "data agent", "nats", "redis"]
type Manner = Literal["kill", "term", "stop"]

DATA_AGENTS = ("meter", "gauge")
"""Agents of the team `data`. The first has effects that must not happen twice; the second has none."""

PROGRAM = "program"
"""The agent of a call that executes a program."""

_OF_WORKERS = (("ledger", 5), ("notes", 3), ("teller", 3), ("quick", 3), ("planner", 4), ("asker", 3), ("courier", 4))
STEWARD = "steward"
"""The agent of fast-agent, of the same team."""

_AGENTS = (*_OF_WORKERS, *((name, 3) for name in DATA_AGENTS), (PROGRAM, 5))
_KINDS: tuple[tuple[Kind, int], ...] = (
    ("plain", 6),
    ("keyed", 5),
    ("legacy", 4),
    ("cancelled", 2),
    ("legacy_cancelled", 1),
)
_BLOWS: tuple[tuple[tuple[Target, Manner], int], ...] = (
    (("worker", "kill"), 8),
    (("worker", "term"), 3),
    (("worker", "stop"), 4),
    (("fast-agent worker", "kill"), 2),
    (("fast-agent worker", "term"), 1),
    (("fast-agent worker", "stop"), 1),
    (("gateway", "kill"), 2),
    (("gateway", "term"), 2),
    (("pipelines", "kill"), 3),
    (("pipelines", "term"), 2),
    (("pipelines", "stop"), 2),
    (("pool", "kill"), 3),
    (("pool", "term"), 2),
    (("pool", "stop"), 2),
    (("data agent", "kill"), 2),
    (("data agent", "stop"), 1),
    (("nats", "kill"), 2),
    (("nats", "term"), 2),
    (("redis", "kill"), 1),
)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call: `seconds` of work in `steps` steps. `cancel_after` is when its caller loses interest."""

    key: str
    agent: str
    kind: Kind
    seconds: float
    steps: int
    gateway: int
    cancel_after: float | None


@dataclass(frozen=True, slots=True)
class Blow:
    """`at` seconds into the storm, to the `number`th of its kind, which is down (or paused) for `down` seconds."""

    at: float
    target: Target
    manner: Manner
    number: int
    down: float


def scripted_calls(random: Random, count: int, longest: float, *, steward: bool = False) -> list[ScriptedCall]:
    """As many calls, of up to `longest` seconds of work each; some of them of the `steward`."""
    agents = (*_AGENTS, (STEWARD, 6)) if steward else _AGENTS
    return [_call(random, f"k{number}", _pick(random, agents), 0.3, longest) for number in range(1, count + 1)]


def scripted_programs(random: Random, count: int, longest: float) -> list[ScriptedCall]:
    """As many calls, each of a program of 30 nodes or a few more."""
    return [_call(random, f"k{number}", PROGRAM, longest / 2, longest) for number in range(1, count + 1)]


def _call(random: Random, key: str, agent: str, shortest: float, longest: float) -> ScriptedCall:
    kind = _pick(random, _KINDS)
    seconds = random.uniform(shortest, longest)
    cancel_after = random.uniform(0.0, seconds * 1.2) if "cancelled" in kind else None
    steps = max(2, min(12, round(seconds / 0.4)))
    return ScriptedCall(key, agent, kind, seconds, steps, random.randrange(2), cancel_after)


def scripted_blows(random: Random, seconds: float, every: float) -> list[Blow]:
    """Blows over so many seconds, one `every` so many on average. None is short of all workers for long, and each kills
    a worker of fast-agent, of which there are few.
    """
    blows: list[Blow] = []
    at = random.uniform(1.0, 2.0)
    while at < seconds:
        target, manner = _pick(random, _BLOWS)
        down = random.uniform(1.0, 14.0) if manner == "stop" else random.uniform(0.0, 2.0)
        blows.append(Blow(at, target, manner, random.randrange(6), down))
        at += random.uniform(0.4, 1.6) * every
    blows.append(Blow(seconds / 3, "fast-agent worker", "kill", 0, 0.5))
    return sorted(blows, key=lambda blow: blow.at)


def scripted_hail(random: Random, seconds: float, every: float) -> list[Blow]:
    """A kill or a stop `every` so many seconds, of whatever executes, submits or follows turns; the broker is restarted
    after a fifth of the time and after half of it.
    """
    targets: tuple[Target, ...] = ("worker", "gateway", "pool", "pipelines")
    blows = [
        Blow(at * every, random.choice(targets), random.choice(("kill", "stop")), random.randrange(6), 1.5)
        for at in range(5, round(seconds / every))
    ]
    restarts = [Blow(seconds / 5, "nats", "kill", 0, 0.5), Blow(seconds / 2, "nats", "term", 0, 0.5)]
    return sorted([*blows, *restarts], key=lambda blow: blow.at)


def _pick[T](random: Random, weighted: Sequence[tuple[T, int]]) -> T:
    [picked] = random.choices([what for what, _ in weighted], [weight for _, weight in weighted])
    return picked
