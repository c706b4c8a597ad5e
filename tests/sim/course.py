"""What a simulation is told, and what it was like."""

from dataclasses import dataclass
from datetime import datetime

from tests.sim.lag import Lag
from tests.sim.offered import Schedule, Turn


@dataclass(frozen=True, slots=True)
class Plan:
    """How long what lasts. `schedule` is the callers over time; the run goes on after it until no worker is left."""

    schedule: Schedule
    slots: int
    most: int
    turn_seconds: float
    faster: float


@dataclass(frozen=True, slots=True)
class Moment:
    """What there was at one look: seconds since the beginning, callers, queues, and workers wanted and ready."""

    at: float
    callers: int
    lag: Lag
    wanted: int
    ready: int
    ending: int

    @property
    def busy(self) -> bool:
        """Whether anything is going on."""
        return bool(self.callers or self.wanted or self.ending)


@dataclass(frozen=True, slots=True)
class Course:
    """What a run was like. `failed` are exit codes of workers that ended when or as they should not."""

    began: datetime
    moments: list[Moment]
    turns: list[Turn]
    failed: list[int]
