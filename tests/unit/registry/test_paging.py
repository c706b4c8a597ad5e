"""The query of the official registry API, and the pages it selects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from registry.http import is_fresh, page, parse_query
from registry.listing import Listing, compile_listing

AT = datetime(2026, 3, 12, 10, tzinfo=UTC)


def _listing(count: int = 5) -> Listing:
    agents = {
        f"t.a{n}": AgentDefinition(
            team="t", agent=f"a{n}", title="A", version=f"1.{n}.0+build", updated_at=AT + timedelta(hours=n)
        )
        for n in range(count)
    }
    return compile_listing(agents, {}, {}, public_url="http://p")


def _names(found: dict[str, Any]) -> list[str]:
    return [entry["server"]["name"].removeprefix("local.pallas/pallas-") for entry in found["servers"]]


def _select(**parameters: str) -> list[str]:
    return _names(page(_listing(), parse_query(**parameters)))


def test_pages_follow_each_other_without_gap_or_repetition_and_the_last_has_no_cursor() -> None:
    listing, seen, cursor = _listing(), list[str](), None
    for expected in (2, 2, 1):
        found = page(listing, parse_query(limit="2", cursor=cursor, version="latest"))
        assert found["metadata"]["count"] == expected
        seen += _names(found)
        cursor = found["metadata"].get("nextCursor")
    assert seen == ["a0", "a1", "a2", "a3", "a4"]
    assert cursor is None


def test_a_cursor_needs_no_url_encoding() -> None:
    cursor = page(_listing(), parse_query(limit="1"))["metadata"]["nextCursor"]
    assert all(character.isalnum() or character in "-_" for character in cursor)


def test_a_cursor_of_a_removed_agent_continues_after_it() -> None:
    cursor = page(_listing(), parse_query(limit="3"))["metadata"]["nextCursor"]
    assert _names(page(_listing(2), parse_query(cursor=cursor))) == []
    assert _select(cursor=cursor) == ["a3", "a4"]


def test_search_matches_part_of_the_name_in_any_case() -> None:
    assert _select(search="PALLAS-A3") == ["a3"]
    assert _select(search="nothing") == []


def test_a_version_is_exact_or_latest() -> None:
    assert _select(version="1.2.0+build") == ["a2"]
    assert _select(version="latest") == _select() == ["a0", "a1", "a2", "a3", "a4"]
    assert _select(version="9.9.9") == []


@pytest.mark.parametrize("since", ["2026-03-12T13:00:00Z", "2026-03-12T14:00:00+01:00", "2026-03-12T14:00:00 01:00"])
def test_updated_since_takes_any_offset_even_when_its_plus_was_not_encoded(since: str) -> None:
    assert _select(updated_since=since) == ["a3", "a4"]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *(("limit", value) for value in ("0", "-1", "101", "ten", "1.5", "", "٣", "9" * 5000)),
        *(("cursor", value) for value in ("x", "%", "bm90LWEtbmFtZQ", "local.pallas/pallas-a1:1.0.0", "////")),
        *(("updated_since", value) for value in ("yesterday", "2026-03-12", "2026-03-12T10:00:00", "1700000000")),
    ],
)
def test_a_bad_parameter_is_refused_by_name(parameter: str, value: str) -> None:
    with pytest.raises(Rejected, match=parameter) as refused:
        parse_query(**{parameter: value})
    assert refused.value.facts == {"parameter": parameter}


@pytest.mark.parametrize(
    ("header", "fresh"),
    [
        (None, False),
        ('W/"a"', True),
        ('"a"', True),
        ('"b", W/"a"', True),
        ("*", True),
        ('"b"', False),
        ("a", False),
        ("", False),
    ],
)
def test_if_none_match_compares_weakly_with_each_tag(header: str | None, fresh: bool) -> None:
    assert is_fresh(header, 'W/"a"') is fresh
