"""The address of a caller: X-Forwarded-For counts as far as trusted proxies have written it."""

from ipaddress import ip_network
from typing import Any

import pytest

from pallas_runtime.http.senders import name_caller

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("127.0.0.1"), ip_network("fd00::/8"))


def caller_address(peer: tuple[str, int] | None, *forwarded: str, trusted: Any = TRUSTED) -> str | None:
    """The caller's address for a request with these X-Forwarded-For headers."""
    headers = [(b"host", b"x"), *((b"x-forwarded-for", value.encode()) for value in forwarded)]
    scope: dict[str, Any] = {"type": "http", "client": peer, "headers": headers}
    name_caller(scope, trusted)
    return scope["client"][0] if scope["client"] else None


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        ("192.0.2.9", ["192.0.2.1"], "192.0.2.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", ["192.0.2.1:4711"], "192.0.2.1"),
        ("10.0.0.1", ["198.51.100.7, 192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", ["198.51.100.7, 192.0.2.1, 10.0.0.2"], "192.0.2.1"),
        ("10.0.0.1", ["192.0.2.1", "10.0.0.2"], "192.0.2.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["192.0.2.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.1, _x, 10.0.0.2"], "10.0.0.2"),
        ("fd00::1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("fd00::1", ["2001:DB8:0::1"], "2001:db8::1"),
        ("::ffff:10.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        ("testclient", ["192.0.2.1"], "testclient"),
    ],
)
def test_the_caller_is_the_last_forwarded_address_that_is_no_trusted_proxy(
    peer: str, forwarded: list[str], caller: str
) -> None:
    assert caller_address((peer, 1234), *forwarded) == caller


def test_without_trusted_proxies_forwarded_addresses_are_ignored() -> None:
    assert caller_address(("127.0.0.1", 1), "192.0.2.1", trusted=()) == "127.0.0.1"


def test_a_connection_without_an_address_has_no_caller_address() -> None:
    assert caller_address(None, "192.0.2.1") is None
