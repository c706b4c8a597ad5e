"""What the gateway can be told."""

from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo

from pallas_runtime.settings import Names, Networks, Settings

type AuthMode = Literal["off", "optional", "required"]
"""Whether callers are identified by a bearer: never, when they send one, always."""


def _open_on_loopback_only(value: AuthMode, info: ValidationInfo) -> AuthMode:
    """Serving callers whom nobody knows, from elsewhere, has to be meant."""
    host = info.data.get("host")
    if value == "off" and not info.data.get("allow_unauthenticated") and host is not None and not _is_loopback(host):
        raise ValueError(
            "off is allowed only while PALLAS_HOST is a loopback address; use required or optional, "
            "or set PALLAS_ALLOW_UNAUTHENTICATED=true"
        )
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class GatewaySettings(Settings):
    """Settings of an agent-gateway."""

    max_connections: int = Field(
        20_000, ge=1, description="connections of HTTP at once; one more ends that which waited longest for a request"
    )
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
    content_seconds: float = Field(
        900.0, ge=0, description="the workers' own: how long content is kept; what is too big for a message, a day more"
    )
    allow_unauthenticated: bool = Field(False, description="accept PALLAS_GATEWAY_AUTH=off on any PALLAS_HOST")
    gateway_auth: Annotated[AuthMode, AfterValidator(_open_on_loopback_only)] = Field(
        "off", validate_default=True, description="whether callers are identified by a bearer"
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
