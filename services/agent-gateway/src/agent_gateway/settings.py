"""Settings of the gateway."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from agent_gateway.signers import check_signers
from pallas_runtime.settings import CallerSettings, Networks, Ports, StoreSettings


class GatewaySettings(StoreSettings, CallerSettings):
    """Settings of an agent-gateway."""

    max_connections: int = Field(
        20_000, ge=1, description="HTTP connections at once; one more closes the connection that is idle longest"
    )
    public_url: str | None = Field(None, description="base URL at which callers reach this gateway")
    trusted_proxies: Networks = Field(
        (), description="addresses or networks of proxies whose X-Forwarded-For is trusted"
    )
    max_body_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="largest request body; larger ones get 413")
    event_days: float = Field(
        7.0, ge=0.01, le=36_500, description="days for which events, outcomes and dead letters are kept"
    )
    signers: Annotated[str, AfterValidator(check_signers)] | None = Field(
        None, description="JWK Set with the public keys of callers that sign their requests to /rpc"
    )
    live_turns: Literal["all", "own"] = Field(
        "all", description="live messages that the broker sends here: of all turns, or only of those followed here"
    )
    agent_ports: bool = Field(True, description="bind the dedicated ports of agents, where they are free")
    agent_port_offset: int = Field(0, ge=-65_535, le=65_535, description="added to the dedicated port of every agent")
    reserved_ports: Ports = Field((), description="ports of other services on this host, which no agent gets")
    max_agent_ports: int = Field(
        1000, ge=1, description="dedicated ports of all agents, and at most a quarter of the files that may be open"
    )
    max_agent_ports_per_team: int = Field(100, ge=1, description="dedicated ports of the agents of one team")
    request_state_key: SecretStr | None = Field(
        None, min_length=32, description="encrypts requestState; the same on all replicas (generated when not set)"
    )
    log_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="hashes conversation ids, signs event ids; the same on all replicas (generated when not set)",
    )
