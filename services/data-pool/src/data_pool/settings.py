"""The settings of the pool."""

from pydantic import Field

from pallas_runtime.settings import CallerSettings, ExecutorSettings, Names, Networks


class PoolSettings(ExecutorSettings, CallerSettings):
    """Settings of a data-pool."""

    slots: int = Field(1000, ge=1, le=4096, description="turns that this replica executes at a time")
    gateway_url: str | None = Field(None, description="base URL of the gateways, for the `mcp` address of an answer")
    public_url: str | None = Field(None, description="base URL at which agents reach this service")
    pool_registrars: Names | None = Field(
        None, description="who may register agents: `peer`, `user`, `team`, `turn`, `token`, `team:ID`, `token:ID`"
    )
    pool_networks: Networks = Field(
        (), description="networks of this machine or site in which agents may have endpoints"
    )
    pool_patience: float = Field(5.0, ge=0, description="seconds for which turns wait for an agent that has gone")
    pool_forget_hours: float = Field(
        24.0, gt=0, description="hours of silence after which an agent that should send heartbeats is forgotten"
    )

    pool_agents_each: int = Field(200, ge=1, description="agents that one caller may register")
    pool_mib_each: float = Field(8.0, gt=0, description="MiB of the registrations of one caller")
    pool_agents: int = Field(2000, ge=1, description="agents that all callers together may register")
    pool_mib: float = Field(64.0, gt=0, description="MiB of all registrations, which every service keeps in memory")

    @property
    def registrars(self) -> frozenset[str]:
        """The words of `pool_registrars`; by default everybody may register while bearers are ignored."""
        if self.pool_registrars is not None:
            return frozenset(self.pool_registrars)
        return frozenset({"team", "token"} | ({"peer", "user"} if self.gateway_auth == "off" else set()))
