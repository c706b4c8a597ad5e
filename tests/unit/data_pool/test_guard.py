"""Which addresses the endpoint of an agent may have."""

from ipaddress import ip_address, ip_network

import httpcore2
import pytest

from data_pool.reaching.endpoint import is_allowed
from pallas_runtime.http.guard import Address, Forbidden, checked_addresses


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
    ],
)
def test_addresses_inside_are_refused(address: str) -> None:
    assert not is_allowed(ip_address(address), ())


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(ip_address(address), ())


def test_networks_of_the_settings_are_allowed_and_no_others() -> None:
    networks = (ip_network("10.0.0.0/8"),)
    assert is_allowed(ip_address("10.1.2.3"), networks)
    assert is_allowed(ip_address("::ffff:10.1.2.3"), networks)
    assert not is_allowed(ip_address("192.168.1.1"), networks)


async def test_every_address_of_a_name_is_checked() -> None:
    def public(address: Address) -> bool:
        return is_allowed(address, ())

    for host in ("localhost", "127.1", "[::1]".strip("[]"), "2130706433"):
        with pytest.raises(Forbidden):
            await checked_addresses(host, 80, public)
    assert await checked_addresses("127.0.0.1", 80, lambda one: is_allowed(one, (ip_network("127.0.0.0/8"),))) == [
        "127.0.0.1"
    ]
    for host in ("a." * 200, "\u2028"):
        with pytest.raises(httpcore2.ConnectError):
            await checked_addresses(host, 80, public)
