"""The settings of the worker."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from pallas_hosting.worker import WorkerSettings
from pallas_runtime.settings import Folders, Names


class FastAgentSettings(WorkerSettings):
    """Settings of a fast-agent-worker: those of every worker, and its own."""

    teams: Folders = Field((), description="the team folder to host; one process hosts one folder")
    slots: int = Field(8, ge=1, le=4096, description="turns this worker runs at a time")
    stdio: Literal["shared", "per-turn"] = Field(
        "shared", description="servers over stdio: one process for all turns of an agent, or one for each turn"
    )
    own_agents: Literal["same-turn", "gateway"] = Field(
        "same-turn", description="servers that are agents of the folder: called in the same turn, or over their address"
    )

    import_seconds: float = Field(
        30.0,
        gt=0,
        description="seconds after which a program that has not returned from its import is told, and a process that a "
        "program blocks later is killed, after 10 at least",
    )
    gateway_urls: Names = Field(
        (),
        description="base URLs of the gateways, with commas: a server at one of them may be an agent of the folder",
    )

    @field_validator("teams")
    @classmethod
    def _one(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        """One folder, by a path that holds in another working directory."""
        if len(value) > 1:
            raise ValueError(
                "must be one folder: fast-agent keeps its settings in global variables, so each folder needs a process"
            )
        return tuple(folder.absolute() for folder in value)
