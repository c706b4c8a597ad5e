"""How long a change of what a team may read takes until it is confirmed, with the protection of answers and without.

Two replicas of team-lifecycle take turns to change one truth. One invalidates the entries in Redis before a change and
refreshes them after it. The other deletes them after the change, as a plain cache does.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from tests.bench.auth.parts import Parts
from tests.bench.auth.truth import Api, Team, api, make_token, make_user
from tests.bench.figures import spread

PROTECTED, UNPROTECTED = "protected", "unprotected"

type Change = Callable[[Api], object]


def measure(parts: Parts, teams: Sequence[Team], times: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Detach a team and attach it again, and revoke tokens, so many times each. Returns figures by change and way."""
    report(f"{times} changes of each kind, with protection and without")
    seconds: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as opened:
        protected = opened.enter_context(api(parts.lifecycle.port))
        unprotected = opened.enter_context(api(opened.enter_context(parts.unprotected()).port))
        make_user(protected, "ada")
        ways = {PROTECTED: protected, UNPROTECTED: unprotected}
        for number in range(times):
            for way, lifecycle in ways.items():
                for change, make in _changes(lifecycle, teams[number % len(teams)]).items():
                    seconds.setdefault(change, {}).setdefault(way, []).append(_seconds(make, lifecycle))
    return {change: {way: spread("times", taken) for way, taken in ways.items()} for change, ways in seconds.items()}


def _changes(lifecycle: Api, team: Team) -> dict[str, Change]:
    token = make_token(lifecycle, "ada")
    return {
        "detach": lambda each: each.attach(team),
        "attach": lambda each: each.attach(team, team.workspace),
        "revoke": lambda each: each.revoke(token),
    }


def _seconds(make: Change, lifecycle: Api) -> float:
    began = time.perf_counter()
    make(lifecycle)
    return time.perf_counter() - began
