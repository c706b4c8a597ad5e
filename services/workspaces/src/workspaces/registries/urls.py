"""Addresses of registries, as a person writes them and as they are stored, and of the icons of their agents."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from urllib.parse import unquote, urljoin

import httpx2

from pallas_contracts.errors import Rejected
from workspaces.registries.words import line

WELL_KNOWN = "/.well-known/mcp/server.json"
"""Where a registry has its document (interface contract, section 1)."""
LONGEST_URL = 2048
LONGEST_NAME = 200
FIELD = "registry_url"
ICONS = "/api/v1/icons"


def normal_url(given: str) -> str:
    """The address of a registry as it is stored: without the well-known path, a slash at the end and a default port.

    Raises:
        Rejected: it is no http(s) address, or it has credentials, a query or a fragment (`field`).
    """
    text = given.strip()
    if text and "://" not in text:
        text = f"http://{text}"  # as people type it
    if not text or len(text) > LONGEST_URL or not text.isprintable() or " " in text:
        raise _bad(f"must be an http(s) address of at most {LONGEST_URL} characters")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise _bad("is not an address") from error
    if not url.path.isprintable():
        raise _bad("is not an address")
    if url.scheme not in ("http", "https") or not url.host:
        raise _bad("must begin with http:// or https:// and name a host")
    if url.userinfo:
        raise _bad("must not have a name or password in it")
    if url.query or url.fragment or "?" in text or "#" in text:
        raise _bad("must not have a query or fragment")
    path = url.path.rstrip("/").removesuffix(WELL_KNOWN).rstrip("/")
    return str(url.copy_with(path=path or "/")).rstrip("/")


def document_url(base: str) -> str:
    """Where the registry at the stored address `base` has its document."""
    return f"{base}{WELL_KNOWN}"


def suggested_name(base: str, namespace: str | None) -> str:
    """A name for an instance that was given none: its team, else the last label of its namespace, else its host."""
    url = httpx2.URL(base)
    parts = [unquote(part) for part in url.path.split("/") if part]
    if len(parts) >= 2 and parts[-2] == "teams":
        return line(parts[-1], LONGEST_NAME) or url.host
    return line((namespace or "").rpartition(".")[2], LONGEST_NAME) or url.host


def told_apart(instances: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """A name for each instance, of their ids, names and addresses.

    Where two have one name, it has the host behind it; where that is not enough, the address.
    """
    wanted = {
        instance_id: (name, f"{name} ({httpx2.URL(base).netloc.decode()})", f"{name} ({base})")
        for instance_id, name, base in instances
    }
    taken = Counter(name.casefold() for names in wanted.values() for name in names)
    return {
        instance_id: next((name for name in names if taken[name.casefold()] == 1), names[-1])
        for instance_id, names in wanted.items()
    }


def _bad(reason: str) -> Rejected:
    return Rejected(f"{FIELD}: {reason}", code="bad_registry_url", field=FIELD)


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
    return f"{ICONS}/{icon_hash(url)}" if url else None


def icon_hash(url: str) -> str:
    """The name of an icon in its path."""
    return hashlib.sha256(url.encode()).hexdigest()[:32]
