"""The metrics of all processes of a folder as those of one, with the program as a label."""

import asyncio
from collections.abc import Sequence
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_SECONDS = 2.0
_SAME = ("pallas_ready", "pallas_build_info", "python_info", "process_start_time_seconds")
"""Those that are no amounts: of processes of one program, it is the lowest."""

type _Samples = dict[tuple[str, frozenset[tuple[str, str]]], Sample]


async def metrics_of(ports: Sequence[tuple[str, int]]) -> bytes:
    """The metrics of the processes that listen on these ports of this machine, each with its program.

    Processes of one program are added up. One that does not answer is left out.
    """
    texts = await asyncio.gather(*(asyncio.to_thread(_read, port) for _, port in ports))
    metrics: dict[str, Metric] = {}
    samples: dict[str, _Samples] = {}
    for (program, _), text in zip(ports, texts, strict=True):
        for family in text_string_to_metric_families(text.decode()):
            metrics.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            known = samples.setdefault(family.name, {})
            for each in family.samples:
                labels = {**each.labels, "program": program}
                key = each.name, frozenset(labels.items())
                both = (known[key].value, each.value) if key in known else (each.value,)
                known[key] = Sample(each.name, labels, min(both) if each.name in _SAME else sum(both))
    for name, metric in metrics.items():
        metric.samples = list(samples[name].values())
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(list(metrics.values())))
    return generate_latest(registry)


class _Merged:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _read(port: int) -> bytes:
    try:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/metrics", timeout=_SECONDS) as answer:
            return answer.read()
    except (OSError, HTTPException):
        return b""
