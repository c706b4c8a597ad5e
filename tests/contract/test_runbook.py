"""The runbook leads to parts that exist, says all that is needed of each failure, and quotes what is really said."""

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
    """The anchor that a heading gets."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@cache
def sources() -> str:
    texts = [path.read_text("utf-8") for path in source_files("shared", "services", "cli")]
    # Texts that are written over two lines of code are one text.
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))


def untold(text: str) -> list[str]:
    """The pieces of a text that no source has; names, numbers and what follows from them are left out."""
    pieces = (piece.strip() for piece in re.split(r"[:…]|\bN\b|\d+", text))
    return [piece for piece in pieces if piece and piece not in sources()]


def test_the_ten_likeliest_failures_are_there() -> None:
    assert len(parts(FAILURES)) >= 10


@pytest.mark.parametrize("failure", parts(FAILURES))
def test_a_failure_has_what_is_seen_where_to_look_how_to_act_and_when_it_is_over(failure: str) -> None:
    said = re.findall(r"^- \*\*(\w+)\*\*: ", parts(FAILURES)[failure], re.MULTILINE)
    assert said == ["Symptom", "Look", "Act", "Afterwards"]


def test_every_link_within_the_runbook_leads_to_a_part_of_it() -> None:
    known = {anchor(heading) for heading in parts(FAILURES) | parts(ALERTS)}
    assert set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK)) - known == set()


def test_every_failure_is_led_to_by_what_is_seen_of_it() -> None:
    led_to = set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK.split("\n# The likeliest failures\n")[0]))
    assert {anchor(heading) for heading in parts(FAILURES)} - led_to == set()


def test_every_alert_that_a_failure_raises_is_one() -> None:
    assert set(re.findall(r"`(Pallas\w+)`", RUNBOOK)) - set(parts(ALERTS)) == set()


@pytest.mark.parametrize("event", sorted(set(EVENT.findall(RUNBOOK))))
def test_every_log_line_that_is_shown_is_logged(event: str) -> None:
    assert untold(event) == []


@pytest.mark.parametrize("seen", [words for row in SEEN.findall(RUNBOOK) for words in re.findall(r"`([^`]+)`", row)])
def test_what_callers_see_is_what_they_are_told(seen: str) -> None:
    assert untold(seen) == []


def test_what_nobody_says_is_noticed() -> None:
    assert untold("busy: The platform sleeps") == ["The platform sleeps"]
