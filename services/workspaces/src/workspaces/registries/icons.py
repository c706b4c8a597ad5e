"""Addresses of icons. `src` is stored as the registry has it, and may be relative to the registry."""

import hashlib
from urllib.parse import urljoin

from workspaces.model import API


def icon_url(registry_url: str, src: str | None) -> str | None:
    """The absolute http(s) or data address of an icon, None if there is none."""
    if not src:
        return None
    if src.startswith("data:image/"):
        return src
    try:
        url = urljoin(f"{registry_url}/", src)
    except ValueError:
        return None
    return url if url.startswith(("http://", "https://")) else None


def icon_path(registry_url: str, src: str | None) -> str | None:
    """The path of this service at which browsers get an icon, None if there is none."""
    url = icon_url(registry_url, src)
    return f"{API}/icons/{icon_hash(url)}" if url else None


def icon_hash(url: str) -> str:
    """The name of an icon in its path."""
    return hashlib.sha256(url.encode()).hexdigest()[:32]
