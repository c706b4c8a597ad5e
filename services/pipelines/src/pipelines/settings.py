"""The settings of pipelines."""

from pydantic import Field, SecretStr

from pallas_runtime.settings import CallerSettings, ExecutorSettings, Names, StoreSettings


class PipelinesSettings(StoreSettings, ExecutorSettings, CallerSettings):
    """Settings of pipelines."""

    slots: int = Field(1000, ge=1, le=4096, description="executions and other calls that this replica runs at a time")
    log_key: SecretStr | None = Field(
        None,
        description="key of the hashes in the log, the same as at the gateways; without one the history of an "
        "agent's label is that of this process only",
    )
    public_url: str | None = Field(None, description="base URL at which callers reach the HTTP API")
    constellation_api_keys: SecretStr | None = Field(
        None,
        description="keys of the HTTP API besides bearers, as `key:Role,key:Role`; a key has 24 characters or more, a "
        "role is `ReadOnly`, `Execute`, `Write` or `Admin`",
    )
    pipeline_read: Names | None = Field(
        None, description="who may list and check: `peer`, `user`, `team`, `turn`, `token`, `team:ID`, `token:ID`"
    )
    pipeline_execute: Names | None = Field(None, description="who may execute, in the same words")
    pipeline_write: Names | None = Field(None, description="who may store and publish pipelines, in the same words")
    pipeline_admin: Names = Field((), description="who may see and change the pipelines of all, in the same words")
    pipeline_calls: int = Field(64, ge=1, le=1024, description="calls of one execution that run at a time")
    pipeline_rate: float = Field(200.0, gt=0, description="requests to the HTTP API a minute, of each agent")
    pipeline_burst: int = Field(40, ge=1, description="requests to the HTTP API that an agent may send at once")
