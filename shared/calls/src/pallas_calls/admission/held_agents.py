"""Refuse calls of an agent whose workers take no turns, as after a restore: they would wait for an unknown time."""

from collections.abc import Iterable

from pallas_calls.model import Refusal
from pallas_contracts.agents import WorkerPresence

HELD_RETRY_AFTER_MS = 60_000
"""An operator decides how long it takes."""

_WHY = "Pallas takes no turns at the moment: its operators check what was under way before. Try again later."


def held(workers: Iterable[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent is held on every worker that has it, else None."""
    key = f"{team}.{agent}"
    having = [worker.held for worker in workers if key in worker.agents]
    if not having or None in having:
        return None
    return Refusal("busy", _WHY, HELD_RETRY_AFTER_MS, limit="hold")
