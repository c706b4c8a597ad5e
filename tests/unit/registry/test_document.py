"""One agent's entry: always valid against the schema, whatever its definition says."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pallas_contracts.agents import AgentDefinition, Capabilities, Icon
from pallas_contracts.health import AgentHealth
from registry.document import HEALTH, OFFICIAL, describe, is_server_name, server_name

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "server-2025-12-11.schema.json").read_text("utf-8")
)
AT = datetime(2026, 3, 12, 10, 0, 0, 123456, tzinfo=UTC)


def _definition(**fields: Any) -> AgentDefinition:
    given = {"team": "ouranos", "agent": "research", "title": "Research Agent", "updated_at": AT} | fields
    return AgentDefinition.model_validate(given)


def _describe(definition: AgentDefinition, health: AgentHealth | None = None, *, stale: bool = False) -> Any:
    url = "http://puck.incus:23031/mcp"
    return describe(definition, health, url=url, public_url="https://pallas.example/base", stale=stale)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"title": "", "description": "", "version": ""},
        {"title": "t" * 300, "description": "d" * 300, "version": "1" * 300},
        {"description": "two\n  lines\tand a tab"},
        {"icons": (Icon(src="/a.svg"), Icon(src="b.png", sizes=("48x48", "huge"), mime_type="image/png"))},
        {"icons": (Icon(src="data:image/png;base64," + "A" * 500), Icon(src=""))},
        {"icons": (Icon(src="https://x.example/i.bmp", sizes=("any",), mime_type="image/bmp"),)},
        {"capabilities": Capabilities(model="qwen3-8b-q5", vision=True, context_window=200_000)},
    ],
)
def test_every_definition_gives_a_document_that_the_schema_accepts(fields: dict[str, Any]) -> None:
    jsonschema.validate(_describe(_definition(**fields))["server"], SCHEMA)


def test_the_name_is_the_namespace_and_the_agent_after_pallas() -> None:
    assert server_name(_definition(namespace="ca.helu.ouranos")) == "ca.helu.ouranos/pallas-research"


@pytest.mark.parametrize("name", ["", "a/b/c", "no-slash", "white space/x", "ä.example/x", "a" * 200 + "/x"])
def test_names_that_the_schema_refuses_are_no_server_names(name: str) -> None:
    assert not is_server_name(name)


def test_the_description_is_one_line_that_falls_back_to_the_title() -> None:
    assert _describe(_definition(description="a\n b"))["server"]["description"] == "a b"
    assert _describe(_definition(description=" \n"))["server"]["description"] == "Research Agent"


def test_a_long_description_is_cut_at_one_hundred_characters_with_an_ellipsis() -> None:
    text = _describe(_definition(description="x" * 101))["server"]["description"]
    assert text == "x" * 99 + "…"
    assert _describe(_definition(description="x" * 100))["server"]["description"] == "x" * 100


def test_a_relative_icon_is_completed_with_the_public_address_and_an_absolute_one_kept() -> None:
    icons = (Icon(src="icons/a.svg"), Icon(src="/b.svg"), Icon(src="https://cdn.example/c.svg", sizes=("any",)))
    shown = _describe(_definition(icons=icons))["server"]["icons"]
    assert [icon["src"] for icon in shown] == [
        "https://pallas.example/base/icons/a.svg",
        "https://pallas.example/b.svg",
        "https://cdn.example/c.svg",
    ]
    assert all(icon["sizes"] == ["any"] for icon in shown)


def test_capabilities_are_absent_unless_configured_and_unknown_numbers_are_left_out() -> None:
    assert "capabilities" not in _describe(_definition())["server"]
    known = _describe(_definition(capabilities=Capabilities(model="m", max_output_tokens=32_000)))["server"]
    assert known["capabilities"] == {"model": "m", "vision": False, "max_output_tokens": 32_000}


def test_the_official_metadata_has_five_fields_with_the_time_of_the_definition() -> None:
    official = _describe(_definition())["_meta"][OFFICIAL]
    at = "2026-03-12T10:00:00.123Z"
    assert official == {
        "status": "active",
        "statusChangedAt": at,
        "publishedAt": at,
        "updatedAt": at,
        "isLatest": True,
    }


def test_health_is_in_the_metadata_under_a_key_of_its_own() -> None:
    health = AgentHealth(
        team="ouranos", agent="research", status="degraded", message="argos slow", workers=2, interval=15, at=AT
    )
    assert _describe(_definition(), health)["_meta"][HEALTH] == {
        "status": "degraded",
        "message": "argos slow",
        "timestamp": "2026-03-12T10:00:00.123Z",
        "workers": 2,
    }
    assert HEALTH not in _describe(_definition())["_meta"]


@pytest.mark.parametrize(("status", "shown"), [("ok", "degraded"), ("degraded", "degraded"), ("error", "error")])
def test_stale_health_is_shown_as_stale_and_never_as_ok(status: Any, shown: str) -> None:
    health = AgentHealth(team="ouranos", agent="research", status=status, interval=15, at=AT)
    found = _describe(_definition(), health, stale=True)["_meta"][HEALTH]
    assert (found["status"], found["message"]) == (shown, "check is stale")
