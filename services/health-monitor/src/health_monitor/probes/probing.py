"""Shared by all probes: the HTTP client, the timeout, and reasons without secrets.

The texts of httpx's errors may contain an address, so they are never passed on.
"""

import asyncio
import logging
from collections.abc import Awaitable

import httpx

log = logging.getLogger(__name__)


def make_http(timeout: float) -> httpx.AsyncClient:
    """The client of all probes. Every probe makes a new connection, because it has to find out whether that works."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(timeout=timeout, limits=limits)


async def reason_of(probing: Awaitable[str | None], timeout: float) -> str | None:
    """Wait for a probe, for `timeout` seconds; return its answer, or why there is none."""
    try:
        async with asyncio.timeout(timeout):
            return await probing
    except (TimeoutError, httpx.TimeoutException):
        return f"no answer in {timeout:g} s"
    except httpx.ConnectError:
        return "cannot connect"
    except httpx.HTTPError:
        return "the connection broke"
    except (httpx.InvalidURL, ValueError):
        return "its address or a header is invalid"
    except Exception as error:  # noqa: BLE001 - one server's odd answer must not end the probes of all others
        log.warning("a probe failed unexpectedly", extra={"error": type(error).__name__})
        return "the probe failed"
