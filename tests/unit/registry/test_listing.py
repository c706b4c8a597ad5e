"""The listing: which agents are in which document, where they are reached, and when its tag moves."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pallas_contracts.agents import AgentDefinition, GatewayPresence
from pallas_contracts.health import AgentHealth
from registry.listing import Listing, compile_listing

AT = datetime(2026, 3, 12, 10, tzinfo=UTC)
PUBLIC = "https://pallas.example"


def _agent(team: str, agent: str, *, at: datetime = AT, namespace: str = "ca.helu") -> dict[str, AgentDefinition]:
    definition = AgentDefinition(team=team, agent=agent, title=agent, namespace=namespace, updated_at=at)
    return {f"{team}.{agent}": definition}


def _health(at: datetime = AT, message: str | None = None) -> dict[str, AgentHealth]:
    status = "degraded" if message else "ok"
    return {
        "a.one": AgentHealth.model_validate(
            {"team": "a", "agent": "one", "status": status, "message": message, "interval": 15, "at": at}
        )
    }


def _gateway(name: str, host: str, ports: dict[str, int]) -> dict[str, GatewayPresence]:
    return {name: GatewayPresence(gateway=name, url=PUBLIC, host=host, ports=ports, at=AT)}


def _compile(
    agents: dict[str, AgentDefinition],
    health: dict[str, AgentHealth] | None = None,
    gateways: dict[str, GatewayPresence] | None = None,
) -> Listing:
    return compile_listing(agents, health or {}, gateways or {}, public_url=PUBLIC)


def _names(body: bytes) -> list[str]:
    return [entry["server"]["name"] for entry in json.loads(body)["servers"]]


def _url(listing: Listing) -> Any:
    return listing.servers[0].document["server"]["remotes"]


def test_the_well_known_body_lists_all_agents_by_name_and_each_team_only_its_own() -> None:
    listing = _compile(_agent("b", "two") | _agent("a", "one") | _agent("a", "three"))
    assert _names(listing.body) == ["ca.helu/pallas-one", "ca.helu/pallas-three", "ca.helu/pallas-two"]
    assert _names(listing.teams["a"]) == ["ca.helu/pallas-one", "ca.helu/pallas-three"]
    assert set(listing.teams) == {"a", "b"}


def test_without_agents_the_body_is_an_empty_list() -> None:
    assert json.loads(_compile({}).body) == {"servers": []}


def test_a_name_used_by_two_teams_is_kept_by_the_one_that_changed_last() -> None:
    listing = _compile(_agent("a", "one") | _agent("b", "one", at=AT + timedelta(seconds=1)))
    assert [entry.team for entry in listing.servers] == ["b"]
    assert _names(listing.body) == ["ca.helu/pallas-one"]
    assert _names(listing.teams["a"]) == ["ca.helu/pallas-one"]
    assert listing.shadowed == ("a.one",)


def test_the_same_agent_in_two_namespaces_is_two_servers() -> None:
    assert len(_compile(_agent("a", "one") | _agent("b", "one", namespace="de.other")).servers) == 2


def test_an_agent_without_a_valid_name_is_left_out_and_the_others_are_listed() -> None:
    listing = _compile(_agent("a", "one", namespace="not a namespace") | _agent("b", "two"))
    assert _names(listing.body) == ["ca.helu/pallas-two"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("puck.incus", "http://puck.incus:23031/mcp"),
        ("::1", "http://[::1]:23031/mcp"),
        ("0.0.0.0", "http://pallas.example:23031/mcp"),
    ],
)
def test_a_bound_port_gives_the_url_of_the_remote(host: str, url: str) -> None:
    listing = _compile(_agent("a", "one"), gateways=_gateway("g1", host, {"a.one": 23031}))
    assert _url(listing) == [{"type": "streamable-http", "url": url}]


def test_without_a_bound_port_the_remote_is_the_path_on_the_public_address() -> None:
    listing = _compile(_agent("a", "one"), gateways=_gateway("g1", "h", {"a.other": 1}))
    assert _url(listing)[0]["url"] == "https://pallas.example/teams/a/mcp/one"


def test_two_gateways_with_the_port_give_the_url_of_the_first_by_name() -> None:
    gateways = _gateway("g2", "second", {"a.one": 2}) | _gateway("g1", "first", {"a.one": 1})
    assert _url(_compile(_agent("a", "one"), gateways=gateways))[0]["url"] == "http://first:1/mcp"


def test_the_etag_ignores_the_time_of_a_check_and_nothing_else() -> None:
    agents = _agent("a", "one")
    first = _compile(agents, _health())
    later = _compile(agents, _health(AT + timedelta(seconds=15)))
    assert first.etag == later.etag
    assert first.body != later.body
    assert _compile(agents, _health(message="argos unreachable")).etag != first.etag
    assert _compile(agents | _agent("a", "two"), _health()).etag != first.etag
    assert _compile(_agent("a", "one", at=AT + timedelta(milliseconds=1)), _health()).etag != first.etag
