"""What KEDA reads from the health monitor: how many slots the turns of a team need."""

import re
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from pallas_bus.connection import Bus
from pallas_turns.queue import queue_depths

_SELECTOR = re.compile(r'(?P<name>\w+)\{(?P<label>\w+)="(?P<value>[^"]*)"\}')


@dataclass(frozen=True, slots=True)
class Lag:
    """What waits in queues and what runs. `wanted` is the metric; None: there is none now, and nothing is scaled."""

    waiting: int
    running: int
    wanted: int | None


async def read_lag(bus: Bus, http: httpx.AsyncClient, monitor: str, trigger: dict[str, Any]) -> Lag:
    """Ask the monitor at `monitor` for the metric of a trigger, and the broker for what the metric comes from."""
    depths = (await queue_depths(bus)).values()
    waiting, running = sum(each.waiting for each in depths), sum(each.running for each in depths)
    return Lag(waiting, running, await _metric(http, monitor, trigger))


async def _metric(http: httpx.AsyncClient, monitor: str, trigger: dict[str, Any]) -> int | None:
    about = trigger["metadata"]
    assert (trigger["type"], about["format"]) == ("metrics-api", "prometheus")
    found = _SELECTOR.fullmatch(about["valueLocation"])
    assert found is not None
    answer = await http.get(f"{monitor}/metrics")
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.name == found["name"] and sample.labels.get(found["label"]) == found["value"]:
                return int(sample.value)
    return None
