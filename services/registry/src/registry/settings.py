"""Settings of the registry."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from pallas_runtime.settings import Settings


def _check_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an http or https URL without a query or fragment")
    return value.rstrip("/")


class RegistrySettings(Settings):
    """Settings of a registry; `public_url` has no trailing slash."""

    public_url: Annotated[str, AfterValidator(_check_url)] = Field(
        "http://127.0.0.1:8080", description="base URL at which callers reach the gateways"
    )
