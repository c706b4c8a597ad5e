"""The tests that pages name for what they promise exist."""

import re

import pytest
from tests.contract.tree import ROOT

PAGE = (ROOT / "docs" / "turn-log.md").read_text("utf-8")
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
}


@pytest.mark.parametrize("page", ["turn-log.md", "explanation/security-model.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text("utf-8")))
    assert len(named) > 15
    assert named - DEFINED == set()


def test_every_guarantee_names_its_tests() -> None:
    guarantees = re.split(r"^\d+\. ", PAGE.partition("## What is guaranteed")[2].partition("\n## ")[0], flags=re.M)[1:]
    assert len(guarantees) == 15
    assert [text[:60] for text in guarantees if "Shown by" not in text] == []
