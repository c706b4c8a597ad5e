"""The runbook: its links lead somewhere, each failure has all its parts, and quoted texts are those of the sources."""

import re
from functools import cache

import pytest
from tests.contract.tree import ROOT, source_files

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")
FAILURES, ALERTS = RUNBOOK.split("\n# The likeliest failures\n")[1].split("\n# Alerts\n")
EVENT = re.compile(r'"event": "([^"]+)"')
SEEN = re.compile(r"^\| (`.+`.*) \| \[", re.MULTILINE)


def parts(text: str) -> dict[str, str]:
    """What stands under each heading."""
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in text.split("\n## ")[1:]}


def anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@cache
def sources() -> str:
    texts = [path.read_text("utf-8") for path in source_files("shared", "services", "cli")]
    # Texts that are written over two lines of code are one text.
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))


def missing_pieces(text: str) -> list[str]:
    """The pieces of a text that no source has. Names and numbers in it are skipped."""
    pieces = (piece.strip() for piece in re.split(r"[:…]|\bN\b|\d+", text))
    return [piece for piece in pieces if piece and piece not in sources()]


def test_the_runbook_has_at_least_ten_failures() -> None:
    assert len(parts(FAILURES)) >= 10


@pytest.mark.parametrize("failure", parts(FAILURES))
def test_a_failure_has_symptom_look_act_and_afterwards(failure: str) -> None:
    labels = re.findall(r"^- \*\*(\w+)\*\*: ", parts(FAILURES)[failure], re.MULTILINE)
    assert labels == ["Symptom", "Look", "Act", "Afterwards"]


def test_every_link_within_the_runbook_leads_to_a_heading() -> None:
    known = {anchor(heading) for heading in parts(FAILURES) | parts(ALERTS)}
    assert set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK)) - known == set()


def test_every_failure_is_linked_from_the_table_of_symptoms() -> None:
    linked = set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK.split("\n# The likeliest failures\n")[0]))
    assert {anchor(heading) for heading in parts(FAILURES)} - linked == set()


def test_every_alert_that_the_runbook_names_has_a_section() -> None:
    assert set(re.findall(r"`(Pallas\w+)`", RUNBOOK)) - set(parts(ALERTS)) == set()


@pytest.mark.parametrize("event", sorted(set(EVENT.findall(RUNBOOK))))
def test_every_log_line_in_the_runbook_is_in_the_sources(event: str) -> None:
    assert missing_pieces(event) == []


@pytest.mark.parametrize("message", [words for row in SEEN.findall(RUNBOOK) for words in re.findall(r"`([^`]+)`", row)])
def test_every_message_to_callers_in_the_runbook_is_in_the_sources(message: str) -> None:
    assert missing_pieces(message) == []


def test_a_text_that_no_source_has_is_found() -> None:
    assert missing_pieces("busy: The platform sleeps") == ["The platform sleeps"]
