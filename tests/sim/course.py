"""The plan and the course of a simulation."""

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
    """One sample: seconds since the beginning, callers, queues, and workers wanted and ready."""

    at: float
    callers: int
    lag: Lag
    wanted: int
    ready: int
    ending: int

    @property
    def busy(self) -> bool:
        """Whether there are callers, turns or workers."""
        return bool(self.callers or self.wanted or self.ending)


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a run. `failed` are exit codes of workers that ended when or as they should not."""

    began: datetime
    moments: list[Moment]
    turns: list[Turn]
    failed: list[int]
