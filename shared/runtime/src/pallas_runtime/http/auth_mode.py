"""Whether a service that callers reach checks their bearers."""

from ipaddress import ip_address
from typing import Literal

from pydantic import ValidationInfo

type AuthMode = Literal["off", "optional", "required"]
"""When a caller's bearer is checked: never, when it sends one, or always (a bearer is then required)."""


def open_on_loopback_only(value: AuthMode, info: ValidationInfo) -> AuthMode:
    """Refuse `off` for a service that other hosts can reach, unless the operator allows it explicitly."""
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
