"""Settings of the health monitor."""

from pydantic import Field

from pallas_runtime.settings import Folders, Settings


class MonitorSettings(Settings):
    """Settings of a health monitor; `teams` are the folders that the workers read, with the same secrets."""

    teams: Folders = Field((), description="team folders, separated as in PATH")
    probe_interval: float = Field(15.0, gt=0, description="seconds between two probes of a dependency")
    probe_timeout: float = Field(3.0, gt=0, description="seconds after which a dependency counts as unreachable")
    measure_interval: float = Field(
        2.0, gt=0, description="seconds between two measurements of the slots that teams need"
    )
    probe_slow: float = Field(2.0, gt=0, description="seconds after which an answer counts as slow")
