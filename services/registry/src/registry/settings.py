"""Settings of the registry."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from pallas_runtime.settings import Names, Settings


def _check_url(value: str) -> str:
    parts = urlsplit(value)
    extra = parts.query or parts.fragment or parts.username is not None or parts.port == 0
    if parts.scheme not in ("http", "https") or not parts.hostname or extra:
        raise ValueError("must be an http or https URL without a user, query or fragment")
    return value.rstrip("/")


def _check_urls(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_check_url, values)))


class RegistrySettings(Settings):
    """Settings of a registry; `public_url` has no trailing slash."""

    public_url: Annotated[str, AfterValidator(_check_url)] = Field(
        "http://127.0.0.1:8080", description="base URL at which callers reach the gateways"
    )
    registry_also: Annotated[Names, AfterValidator(_check_urls)] = Field(
        (), description="registries of other cells, whose agents are listed too, separated by commas"
    )
