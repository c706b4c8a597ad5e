"""Settings of the health monitor."""

from typing import Annotated

import httpx
from pydantic import AfterValidator, Field

from pallas_runtime.settings import Folders, Names, Settings


def _check_addresses(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            url = httpx.URL(value)
        except httpx.InvalidURL:
            url = httpx.URL()
        if url.scheme not in ("http", "https") or not url.host or url.port is None:
            raise ValueError("each must be http://NAME:PORT")
    return values


class MonitorSettings(Settings):
    """Settings of a health monitor; `teams` are the folders that the workers read, with the same secrets."""

    teams: Folders = Field((), description="team folders, separated as in PATH")
    nats_monitor_urls: Annotated[Names, AfterValidator(_check_addresses)] = Field(
        (), description="HTTP monitoring of the broker's servers, separated by commas; a name may stand for several"
    )
    probe_interval: float = Field(15.0, gt=0, description="seconds between two probes of a dependency")
    probe_timeout: float = Field(3.0, gt=0, description="seconds after which a dependency counts as unreachable")
    measure_interval: float = Field(
        2.0, gt=0, description="seconds between two measurements of the slots that teams need"
    )
    probe_slow: float = Field(2.0, gt=0, description="seconds after which an answer counts as slow")
