"""The simulation of scaling, for some seconds: real workers come for real turns and go, and no turn suffers."""

from pathlib import Path

from tests.sim.course import Plan
from tests.sim.report import rows, summary
from tests.sim.scale import simulate

BRIEF = Plan(((0, 0), (2, 12), (6, 12), (7, 0)), slots=4, most=3, turn_seconds=0.5, faster=60.0)


async def test_workers_scale_with_the_callers_and_every_turn_is_executed_once(tmp_path: Path) -> None:
    course = await simulate(BRIEF, tmp_path, lambda _line: None)
    figures = summary(course)
    assert figures["turns"] >= 12
    assert (figures["not completed"], figures["executed more than once"], figures["workers that failed"]) == (0, 0, 0)
    assert figures["most workers"] == 3
    assert course.moments[0].wanted == 0
    last = course.moments[-1]
    assert (last.callers, last.wanted, last.ending, last.lag.wanted) == (0, 0, 0, 0)
    assert sum(row["turns"] for row in rows(course)) == figures["turns"]
