"""Addresses and documents of registries that strangers write."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.requirements import requirement
from tests.workspaces_world.registry import DOCUMENT, entry

from pallas_contracts.errors import Rejected
from workspaces.registries.policy import Policy
from workspaces.registries.read import FOREIGN, MOST_ENTRIES, read_document
from workspaces.registries.refresh import listing_values
from workspaces.registries.urls import document_url, icon_path, icon_url, normal_url, suggested_name, told_apart

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("name", "title", "description", "version", "icons", "remotes", "capabilities"), JSON),
)
LARGEST = 4 * 96 * 1024


@requirement("P-4.2")
@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("http://puck.incus:23030", "http://puck.incus:23030"),
        ("HTTP://Puck.Incus:80/", "http://puck.incus"),
        ("https://puck.incus:443/teams/demo/", "https://puck.incus/teams/demo"),
        ("http://puck.incus/teams/demo/.well-known/mcp/server.json", "http://puck.incus/teams/demo"),
        ("http://puck.incus/.well-known/mcp/server.json/", "http://puck.incus"),
        ("http://[::1]:23030/", "http://[::1]:23030"),
        ("puck.incus:23030", "http://puck.incus:23030"),
        (" 127.0.0.1:23030/teams/demo ", "http://127.0.0.1:23030/teams/demo"),
        ("http://bücher.example", "http://xn--bcher-kva.example"),
    ],
)
def test_an_address_is_stored_in_one_form(written: str, stored: str) -> None:
    assert normal_url(written) == stored
    assert normal_url(stored) == stored
    assert document_url(stored) == f"{stored}/.well-known/mcp/server.json"


@pytest.mark.parametrize(
    "written", ["x" * 3000, "http://a b", "http://a\nb", "//puck", "http://:80", "file:///etc/passwd"]
)
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(Rejected) as refused:
        normal_url(written)
    assert refused.value.facts["field"] == "registry_url"


@pytest.mark.parametrize(
    ("base", "namespace", "name"),
    [
        ("http://puck.incus/teams/demo", "ca.helu.ouranos", "demo"),
        ("http://puck.incus", "ca.helu.ouranos", "ouranos"),
        ("http://puck.incus:23030", None, "puck.incus"),
    ],
)
def test_an_instance_without_a_name_gets_one(base: str, namespace: str | None, name: str) -> None:
    assert suggested_name(base, namespace) == name


def test_instances_of_one_name_get_what_tells_them_apart() -> None:
    found = told_apart(
        [
            ("1", "Org", "http://a:1"),
            ("2", "org", "http://b/teams/x"),
            ("3", "Org", "http://b/teams/y"),
            ("4", "Org (a:1)", "http://c"),
            ("5", "Other", "http://d"),
        ]
    )
    assert found == {
        "1": "Org (http://a:1)",
        "2": "org (http://b/teams/x)",
        "3": "Org (http://b/teams/y)",
        "4": "Org (a:1) (c)",
        "5": "Other",
    }


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "fe80::1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
        "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
        "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_addresses_that_only_this_machine_can_reach_are_refused(address: str) -> None:
    assert not Policy().allows(ip_address(address))
    assert not Policy([ip_network("0.0.0.0/0"), ip_network("::/0")]).allows(ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "fd12::1", "8.8.8.8", "::ffff:10.1.2.3"])
def test_private_addresses_are_normal_and_networks_narrow(address: str) -> None:
    assert Policy().allows(ip_address(address))
    narrow = Policy([ip_network("10.0.0.0/8")])
    assert narrow.allows(ip_address(address)) == ("10.1.2.3" in address)


@requirement("P-4.3")
def test_the_document_of_the_contract_is_read() -> None:
    listing = read_document(DOCUMENT, Policy())
    assert [(agent.server_id, agent.title, agent.url) for agent in listing.agents] == [
        ("pallas-research", "Research Agent", "http://puck.incus:23031/mcp"),
        ("pallas-infra", "Engineering Agent", "http://puck.incus:23032/mcp"),
    ]
    assert listing.agents[0].icon == "https://daedalus.ouranos.helu.ca/icons/research.svg"
    assert (listing.unusable, listing.namespace) == ((), "ca.helu.ouranos")


def test_a_title_falls_back_to_the_name_and_the_first_remote_that_streams_counts() -> None:
    remotes = [
        {"type": "sse", "url": "http://x/sse"},
        {"type": "streamable-http", "url": "http://x/one"},
        {"type": "streamable-http", "url": "http://x/two"},
    ]
    [agent] = read_document({"servers": [entry("a.b/c", remotes=remotes)]}, Policy()).agents
    assert (agent.title, agent.url) == ("a.b/c", "http://x/one")


@pytest.mark.parametrize("document", [None, [], {}, {"servers": {}}, {"servers": None}, "servers"])
def test_a_document_without_servers_is_refused(document: Any) -> None:
    with pytest.raises(Rejected, match="no list `servers`"):
        read_document(document, Policy())


def test_an_agent_that_a_registry_has_from_another_one_takes_no_id_of_its_own_ones() -> None:
    own, stranger = entry("b/harper"), entry("a/harper", title="Stranger")
    listing = read_document({"servers": [stranger | {"_meta": {FOREIGN: False}}, own]}, Policy())
    assert [(agent.name, agent.foreign) for agent in listing.agents] == [("b/harper", False)]
    assert [entry.name for entry in listing.unusable] == ["a/harper"]
    [alone] = read_document({"servers": [stranger | {"_meta": {FOREIGN: True}}]}, Policy()).agents
    assert alone.foreign


def test_a_document_with_too_many_entries_is_read_up_to_a_limit() -> None:
    listing = read_document({"servers": [entry(f"a/{number}") for number in range(MOST_ENTRIES + 5)]}, Policy())
    assert len(listing.agents) == MOST_ENTRIES
    assert listing.unusable[-1].name == "5 further entries"


@given(
    st.lists(JSON | FIELDS.map(lambda fields: {"server": fields}) | FIELDS.map(lambda fields: entry("a/b") | fields))
)
def test_whatever_the_entries_are_each_is_usable_or_has_a_reason(entries: list[Any]) -> None:
    listing = read_document({"servers": entries}, Policy())
    assert len(listing.agents) + len(listing.unusable) == len(entries)
    for agent in listing.agents:
        shown = f"{agent.title}{agent.description}{agent.name}"
        assert len(shown) < LARGEST
        assert not any(mark in shown for mark in "\u0000\n\u202e")
        assert icon_path("http://puck.incus", agent.icon) is None or icon_url("http://puck.incus", agent.icon)
    assert "\\u0000" not in str(listing_values(listing))


@pytest.mark.parametrize(
    ("src", "url"),
    [
        ("/icons/a.svg", "http://puck.incus/icons/a.svg"),
        ("a.svg", "http://puck.incus/teams/demo/a.svg"),
        ("https://x/a.svg", "https://x/a.svg"),
        ("data:image/png;base64,AA==", "data:image/png;base64,AA=="),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        (None, None),
    ],
)
def test_an_icon_has_an_address_relative_to_its_registry(src: str | None, url: str | None) -> None:
    assert icon_url("http://puck.incus/teams/demo", src) == url
