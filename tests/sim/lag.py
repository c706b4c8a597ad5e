"""The lag of consumers as KEDA reads it: out of the broker's `/jsz`, what waits and what runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class Lag:
    """What waits in queues and what runs."""

    waiting: int
    running: int

    @property
    def total(self) -> int:
        """What KEDA scales by."""
        return self.waiting + self.running


async def read_lag(http: httpx.AsyncClient, monitor: str, triggers: Sequence[dict[str, Any]]) -> Lag:
    """Ask for all triggers of a ScaledObject, summed as its formula does.

    Raises:
        LookupError: a consumer is not there; KEDA would take the length of the stream for its lag.
    """
    waiting = running = 0
    for metadata in (trigger["metadata"] for trigger in triggers):
        answer = await http.get(f"{monitor}/jsz?acc={metadata['account']}&consumers=true&config=true")
        consumer = _consumer(answer.json(), metadata)
        waiting += consumer["num_pending"]
        running += consumer["num_ack_pending"]
    return Lag(waiting, running)


def _consumer(said: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    for account in said.get("account_details", ()):
        for stream in account.get("stream_detail", ()):
            if (account["name"], stream["name"]) == (metadata["account"], metadata["stream"]):
                for consumer in stream.get("consumer_detail") or ():
                    if consumer["name"] == metadata["consumer"]:
                        return consumer
    raise LookupError(f"the broker has no consumer {metadata['consumer']!r}")
