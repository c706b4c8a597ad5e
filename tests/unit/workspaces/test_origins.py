"""Addresses that this service reaches elsewhere than callers do."""

import pytest

from pallas_contracts.errors import Rejected
from workspaces.origins import is_own, reached
from workspaces.settings import WorkspacesSettings


def test_an_address_is_reached_under_the_origin_that_is_set_for_its_own() -> None:
    text = "https://pallas.example.com=http://agent-gateway:8080, http://127.0.0.1:23030/=http://registry:8080"
    origins = WorkspacesSettings.from_env({"PALLAS_ORIGINS": text}).origins
    assert reached("https://pallas.example.com:443/teams/a/mcp/b?x=1", origins) == (
        "http://agent-gateway:8080/teams/a/mcp/b?x=1"
    )
    assert reached("http://127.0.0.1:23030", origins) == "http://registry:8080"
    for other in ("http://pallas.example.com/mcp", "https://pallas.example.com:8443/mcp", "https://example.com/mcp"):
        assert reached(other, origins) == other


@pytest.mark.parametrize("text", ["http://a", "http://a=", "a=http://b", "http://a:port=http://b"])
def test_anything_but_pairs_of_origins_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match=r"PALLAS_ORIGINS: .* must be pairs like"):
        WorkspacesSettings.from_env({"PALLAS_ORIGINS": text})


def test_an_address_is_the_platform_s_own_if_it_is_reached_at_an_origin_that_was_declared() -> None:
    given = {
        "PALLAS_OWN_REGISTRIES": "http://registry:8080, https://x.example/",
        "PALLAS_ORIGINS": "http://out=http://registry:8080",
    }
    settings = WorkspacesSettings.from_env(given)
    addresses = ("http://out/teams/a", "http://registry:8080", "https://x.example:443/teams/b")
    assert all(is_own(url, settings.own_registries, settings.origins) for url in addresses)
    strangers = (
        "http://registry:8081",
        "http://x.example",
        "http://registry.evil:8080",
        "http://e/http://registry:8080",
        "x",
    )
    assert not any(is_own(url, settings.own_registries, settings.origins) for url in strangers)
    assert not is_own("http://127.0.0.1:23030", WorkspacesSettings.from_env({}).own_registries, ())
