"""The settings that workers of team folders share."""

from pathlib import Path

from pydantic import Field

from pallas_runtime.settings import ExecutorSettings, Folders


class WorkerSettings(ExecutorSettings):
    """Settings of a worker."""

    teams: Folders = Field((), description="team folders to host, separated as in PATH")
    prices: Path | None = Field(None, description="file with the prices of models; none: no model has a price")
    slots: int = Field(64, ge=1, le=4096, description="turns this worker runs at a time")
