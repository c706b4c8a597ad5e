"""Refuse calls of an agent that failed to start. An agent that no worker hosts is not refused: it may get a worker."""

from pallas_bus.transport.kv import Table
from pallas_calls.model import AGENT_RETRY_AFTER_MS, Refusal
from pallas_contracts.agents import WorkerPresence


def failed_to_start(workers: Table[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent failed to start on every worker that hosts its team, else None."""
    key = f"{team}.{agent}"
    reason: str | None = None
    for worker in workers.values():
        if key in worker.agents:
            return None
        reason = reason or worker.failed.get(key)
    if reason is None:
        return None
    return Refusal("agent_failed", f"The agent could not be started: {reason}", AGENT_RETRY_AFTER_MS)
