"""Addresses that are published for callers, and reached by this service elsewhere: inside a cluster, or between
containers. What is stored and shown is the published address.
"""

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator

_PORTS = {"http": 80, "https": 443}


def _read(value: object) -> object:
    return tuple(_pairs(value)) if isinstance(value, str) else value


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in filter(None, map(str.strip, text.split(","))):
        published, sign, here = pair.partition("=")
        if not sign or _origin(urlsplit(published)) is None or _origin(urlsplit(here)) is None:
            raise ValueError("must be pairs like https://pallas.example.com=http://agent-gateway:8080")
        yield published.rstrip("/"), here.rstrip("/")


def _read_own(value: object) -> object:
    if not isinstance(value, str):
        return value
    own = tuple(_origin(urlsplit(part.strip())) for part in value.split(",") if part.strip())
    if None in own:
        raise ValueError("must be addresses like http://registry:8080, separated by commas")
    return own


type Own = Annotated[tuple[tuple[str, str, int], ...], BeforeValidator(_read_own)]
"""Origins of this platform, separated by commas."""

type Origins = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_read)]
"""Pairs of origins, as `published=reached`, separated by commas."""


def reached(url: str, origins: Origins) -> str:
    """The address under which this service reaches `url`."""
    parts = urlsplit(url)
    for published, here in origins:
        if _origin(parts) == _origin(urlsplit(published)):
            at = urlsplit(here)
            return parts._replace(scheme=at.scheme, netloc=at.netloc).geturl()
    return url


def is_own(url: str, own: Own, origins: Origins) -> bool:
    """Whether this service reaches `url` at an origin of this platform."""
    return _origin(urlsplit(reached(url, origins))) in own


def _origin(parts: SplitResult) -> tuple[str, str, int] | None:
    try:
        port = parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None
