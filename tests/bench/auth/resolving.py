"""How fast a bearer is resolved, beside the round trip through the broker that the question takes anyway.

Warm: Redis has everything. Cold: it has nothing, so the truth is asked. Without Redis the truth is asked, too, and
nothing is kept. Every team asks with a bearer of its own, so that no two questions at one moment are the same.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.bench.asked import Asked
from tests.bench.auth.parts import Parts
from tests.bench.auth.truth import Team
from tests.bench.figures import Cell
from tests.bench.load_process import Load
from tests.bench.peers import echo
from tests.bench.processes import Measured, running

from pallas_contracts.auth import ResolveBearer, Resolved
from pallas_contracts.catalog import RESOLVE
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal

ROUND_TRIP, WARM, COLD, WITHOUT_REDIS = "round-trip", "warm", "cold", "without-redis"
_WARM_UP = 1.0


@dataclass(frozen=True)
class Extent:
    """How much is measured: `rounds` of so many `seconds` for each way at each concurrency."""

    concurrencies: tuple[int, ...]
    rounds: int
    seconds: float


@dataclass
class Bench:
    """What is measured, and by what."""

    parts: Parts
    load: Load
    teams: Sequence[Team]
    resolver: Measured
    cells: dict[tuple[str, int], Cell]

    def asked(self, way: str) -> Asked:
        """The questions of a way, and how they are answered."""
        questions = [ResolveBearer(bearer=team.jwt).model_dump_json() for team in self.teams]
        if way == ROUND_TRIP:
            return Asked(self.parts.nats_url, echo.SUBJECT, questions, "x")
        verdict = {WARM: "hit", COLD: "miss", WITHOUT_REDIS: "bypass"}[way]
        return Asked(self.parts.nats_url, RESOLVE.template.subject(), questions, f'"cache":"{verdict}"')

    def measure(self, way: str, concurrency: int, seconds: float = 0.0) -> None:
        """Add a round; without `seconds` each bearer is resolved once."""
        before = self.resolver.cpu_seconds()
        run = self.load.ask(self.asked(way), concurrency, seconds)
        cpu = {self.resolver.name: self.resolver.cpu_seconds() - before}
        self.cells.setdefault((way, concurrency), Cell()).add(run, cpu)


def measure(
    parts: Parts, load: Load, teams: Sequence[Team], extent: Extent, report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Measure all ways. Returns figures by way and concurrency."""
    with _bench(parts, load, teams) as bench:
        for way in (WARM, ROUND_TRIP):  # what is not in Redis yet is fetched
            load.ask(bench.asked(way), 64, _WARM_UP)
        for number in range(1, extent.rounds + 1):
            for concurrency in extent.concurrencies:
                report(f"resolving, round {number} of {extent.rounds}, concurrency {concurrency}")
                bench.measure(WARM, concurrency, extent.seconds)
                bench.measure(ROUND_TRIP, concurrency, extent.seconds)
                parts.redis.say("FLUSHALL")
                bench.measure(COLD, concurrency)
                load.ask(bench.asked(WARM), 1)  # fills in what was asked for at one moment too often to be kept
        report("resolving without Redis")
        parts.redis.kill9()
        for concurrency in extent.concurrencies:
            bench.measure(WITHOUT_REDIS, concurrency, extent.seconds)
        parts.redis.start()
    return {
        way: {str(concurrency): bench.cells[way, concurrency].summary() for concurrency in extent.concurrencies}
        for way in (ROUND_TRIP, WARM, COLD, WITHOUT_REDIS)
    }


@contextmanager
def _bench(parts: Parts, load: Load, teams: Sequence[Team]) -> Generator[Bench]:
    """A resolver, and beside it somebody who answers at once with as many bytes."""
    answered = Resolved(
        principal=Principal(type="team", id=teams[0].id, name=teams[0].name),
        libraries=teams[0].libraries,
        cache="hit",
        expires_at=utc_now().replace(microsecond=0) + timedelta(days=3650),
    )
    size = str(len(answered.model_dump_json()))
    with (
        parts.running("auth-resolver") as resolver,
        running("echo", parts.folder, "tests.bench.peers.echo", parts.nats_url, size),
    ):
        yield Bench(parts, load, teams, resolver, {})
