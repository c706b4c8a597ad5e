"""The metrics of all processes of a folder as those of one: with the program as a label, if there are several."""

import asyncio
from collections.abc import Mapping
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

_SECONDS = 2.0


async def metrics_of(ports: Mapping[str, int]) -> bytes:
    """The metrics of the processes that listen on these ports of this machine, by their programs.

    One that does not answer is left out.
    """
    texts = await asyncio.gather(*(asyncio.to_thread(_read, port) for port in ports.values()))
    if len(texts) == 1:
        return texts[0]
    merged: dict[str, Metric] = {}
    for program, text in zip(ports, texts, strict=True):
        for family in text_string_to_metric_families(text.decode()):
            into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            into.samples += [it._replace(labels={**it.labels, "program": program}) for it in family.samples]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(merged))
    return generate_latest(registry)


class _Merged:
    def __init__(self, merged: Mapping[str, Metric]) -> None:
        self._merged = merged

    def collect(self) -> list[Metric]:
        return list(self._merged.values())


def _read(port: int) -> bytes:
    try:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/metrics", timeout=_SECONDS) as answer:
            return answer.read()
    except (URLError, OSError):
        return b""
