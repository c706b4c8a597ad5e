"""What the registry can be told."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from pallas_runtime.settings import Settings


def _check_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an http or https address without query")
    return value.rstrip("/")


class RegistrySettings(Settings):
    """`public_url` is where callers reach the gateways; it has no trailing slash."""

    public_url: Annotated[str, AfterValidator(_check_url)] = Field(
        "http://127.0.0.1:8080", description="address under which callers reach the gateways"
    )
