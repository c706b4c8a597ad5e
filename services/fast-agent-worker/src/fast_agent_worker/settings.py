"""The settings of the worker."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from pallas_executor.seal_key_text import SealKeyText
from pallas_runtime.settings import Folders, Settings


class FastAgentSettings(Settings):
    """Settings of a fast-agent-worker."""

    teams: Folders = Field((), description="the team folder to host; one process hosts one folder")
    slots: int = Field(8, ge=1, le=4096, description="turns this worker runs at a time")
    content_seconds: float = Field(
        900.0, ge=0, description="how long content is kept after a turn's end; 0: only until the answer is delivered"
    )
    hold: bool = Field(False, description="take no turns, as after a restore")
    keep_public_key: SealKeyText | None = Field(
        None, description="public key to which requests of failed turns are sealed, for agents with `keep_failed`"
    )
    shadow_dir: Path | None = Field(
        None, description="where the folder is copied to as links, with its settings; default: the temporary folder"
    )
    stdio: Literal["shared", "per-turn"] = Field(
        "shared", description="servers over stdio: one process for all turns of an agent, or one for each turn"
    )

    @field_validator("teams")
    @classmethod
    def _one(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        if len(value) > 1:
            raise ValueError(
                "must be one folder: fast-agent keeps its settings in global variables, so each folder needs a process"
            )
        return value
