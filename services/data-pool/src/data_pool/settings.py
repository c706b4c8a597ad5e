"""The settings of the pool."""

from pydantic import Field

from pallas_runtime.settings import Settings


class PoolSettings(Settings):
    """Settings of a data-pool."""

    slots: int = Field(1000, ge=1, le=4096, description="turns that this replica executes at a time")
    content_seconds: float = Field(
        900.0, ge=0, description="how long content is kept after a turn's end; 0: only until the answer is delivered"
    )
