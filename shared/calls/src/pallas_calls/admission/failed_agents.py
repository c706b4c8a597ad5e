"""Refuse what would wait for an agent that cannot be started. An agent that no worker hosts may still get one."""

from pallas_bus.transport.kv import Table
from pallas_calls.model import Refusal
from pallas_contracts.agents import WorkerPresence

RETRY_AFTER_MS = 5000
"""Time enough for a worker to read a folder that was put right, and to say so."""


def failed_to_start(workers: Table[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent failed to start on every living worker that has its team, else None."""
    key = f"{team}.{agent}"
    reason: str | None = None
    for worker in workers.values():
        if key in worker.agents:
            return None
        reason = reason or worker.failed.get(key)
    if reason is None:
        return None
    return Refusal("agent_failed", f"The agent could not be started: {reason}", RETRY_AFTER_MS)
