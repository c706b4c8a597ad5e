"""What the gateway can be told."""

from pydantic import Field, SecretStr

from pallas_runtime.settings import Names, Networks, Settings


class GatewaySettings(Settings):
    """Settings of an agent-gateway."""

    public_url: str | None = Field(None, description="base URL under which callers reach this gateway")
    allowed_hosts: Names = Field((), description="further Host headers to accept; '*' accepts every one")
    allowed_origins: Names = Field((), description="further Origin headers to accept")
    trusted_proxies: Networks = Field(
        (), description="addresses or networks of proxies whose X-Forwarded-For names the caller"
    )
    max_body_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="largest request body; larger ones get 413")
    event_days: float = Field(
        7.0, ge=0.01, le=36_500, description="how long events, outcomes and dead letters are kept"
    )
    agent_ports: bool = Field(True, description="bind the ports that agents ask for, when they are free")
    request_state_key: SecretStr | None = Field(
        None, min_length=32, description="seals requestState; the same on all replicas (made up when not set)"
    )
    log_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="hashes conversation ids, signs event ids; the same on all replicas (made up when not set)",
    )
