"""The cached listing: compiled again when something has changed, and not before."""

from datetime import UTC, datetime, timedelta

import pytest

from pallas_contracts.agents import AgentDefinition, Allow, GatewayPresence
from pallas_contracts.health import AgentHealth
from registry.catalogue import Catalogue
from registry.document import HEALTH

AT = datetime(2026, 3, 12, 10, tzinfo=UTC)


def _definition(team: str = "a") -> AgentDefinition:
    return AgentDefinition(team=team, agent="one", title="One", updated_at=AT)


def _health(seconds: float = 0) -> AgentHealth:
    return AgentHealth(team="a", agent="one", status="ok", interval=15, at=AT + timedelta(seconds=seconds))


def _catalogue() -> Catalogue:
    catalogue = Catalogue("https://pallas.example")
    catalogue.agent_changed("a.one", _definition())
    catalogue.health_changed("a.one", _health())
    return catalogue


def test_the_listing_is_the_same_object_until_something_changes() -> None:
    catalogue = _catalogue()
    first = catalogue.listing()
    catalogue.tick(AT)
    assert catalogue.listing() is first
    catalogue.agent_changed("a.one", None)
    assert catalogue.listing().servers == ()


def test_an_agent_that_nobody_may_use_is_not_listed() -> None:
    catalogue = _catalogue()
    catalogue.agent_changed("a.one", _definition().model_copy(update={"allow": Allow()}))
    assert catalogue.listing().servers == ()
    catalogue.agent_changed("a.one", _definition().model_copy(update={"allow": Allow(types=("user",))}))
    assert [entry.name for entry in catalogue.listing().servers] == ["local.pallas/pallas-one"]


def test_a_health_check_without_changes_shows_with_the_next_tick() -> None:
    catalogue = _catalogue()
    first = catalogue.listing()
    catalogue.health_changed("a.one", _health(15))
    assert catalogue.listing() is first
    catalogue.tick(AT + timedelta(seconds=15))
    shown = catalogue.listing().servers[0].document["_meta"][HEALTH]
    assert shown["timestamp"] == "2026-03-12T10:00:15.000Z"


def test_health_is_stale_after_two_intervals_without_a_check() -> None:
    catalogue = _catalogue()
    catalogue.tick(AT + timedelta(seconds=31))
    assert catalogue.listing().servers[0].document["_meta"][HEALTH]["message"] == "check is stale"
    catalogue.health_changed("a.one", _health(32))
    assert catalogue.listing().servers[0].document["_meta"][HEALTH]["status"] == "ok"


def test_a_gateways_presence_changes_the_listing_only_by_its_ports() -> None:
    catalogue = _catalogue()
    presence = GatewayPresence(gateway="g", url="http://g", host="g", at=AT)
    catalogue.gateway_changed("g", presence)
    first = catalogue.listing()
    catalogue.gateway_changed("g", presence.model_copy(update={"at": AT + timedelta(seconds=2)}))
    assert catalogue.listing() is first
    catalogue.gateway_changed("g", presence.model_copy(update={"ports": {"a.one": 7}}))
    assert catalogue.listing().servers[0].document["server"]["remotes"][0]["url"] == "http://g:7/mcp"
    catalogue.gateway_changed("g", None)
    assert "teams/a" in catalogue.listing().servers[0].document["server"]["remotes"][0]["url"]


def test_a_shadowed_agent_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    catalogue = _catalogue()
    catalogue.agent_changed("b.one", _definition("b"))
    catalogue.listing()
    catalogue.gateway_changed("g", GatewayPresence(gateway="g", url="http://g", host="g", at=AT))
    catalogue.listing()
    assert [record.__dict__["agent"] for record in caplog.records] == ["b.one"]
