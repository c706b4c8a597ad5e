"""Documents show the examples as they are, and the library's package has the licence."""

from pathlib import Path

import pytest
from tests.contract.tree import ROOT

CLIENT = ROOT / "clients" / "data-agent"


@pytest.mark.parametrize(
    ("document", "language", "example"),
    [
        (ROOT / "docs/tutorials/first-data-agent.md", "python", "prices.py"),
        (ROOT / "docs/tutorials/first-data-agent.md", "js", "words.js"),
        (CLIENT / "README.md", "python", "prices.py"),
        (ROOT / "docs/tutorials/first-pipeline.md", "cst", "headlines.cst"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_document_shows_the_example_that_the_tests_run(document: Path, language: str, example: str) -> None:
    source = (ROOT / "docs/examples" / example).read_text("utf-8")
    assert f"```{language}\n{source}```" in document.read_text("utf-8")


def test_the_library_for_data_agents_has_the_licence_of_the_repository() -> None:
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
