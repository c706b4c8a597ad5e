"""The tables about authorisation report every fault, and only what was measured."""

from typing import Any

from tests.bench.auth.books import QUERIES, book
from tests.bench.auth.tables import faults, sections


def storm(stale: int) -> dict[str, Any]:
    answers = {"right": 90, "stale": stale, "wrong": 0, "unavailable": 2}
    return {"seed": 7, "answers": answers, "changes": 10, "killed": ["redis"], "faults": ["stale: reads []"] * stale}


def test_a_stale_answer_is_a_fault_with_protection_only() -> None:
    assert list(faults({"stale": {"unprotected": storm(1), "protected": storm(0)}})) == []
    [fault] = faults({"stale": {"unprotected": storm(1), "protected": storm(1)}})
    assert "seed 7" in fault


def test_only_a_measured_part_has_a_section() -> None:
    [section] = sections({"stale": {"unprotected": storm(1), "protected": storm(0)}})
    assert "| on, everything killed in between | 10 | 90 | 0 | 0 | 2 |" in section


def test_every_query_finds_something_in_a_hundred_books() -> None:
    books = [book(number) for number in range(100)]
    assert [query for query in QUERIES if not any(query.split()[0] in text for text in books)] == []
