"""The tests that `docs/turn-log.md` names exist."""

import re

from tests.contract.tree import ROOT

PAGE = (ROOT / "docs" / "turn-log.md").read_text("utf-8")
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
}


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 15
    assert named - DEFINED == set()


def test_every_guarantee_names_its_tests() -> None:
    guarantees = re.split(r"^\d+\. ", PAGE.partition("## What is guaranteed")[2].partition("\n## ")[0], flags=re.M)[1:]
    assert len(guarantees) == 16
    assert [text[:60] for text in guarantees if "Shown by" not in text] == []
