"""Paths and functions that documents name exist."""

import re
from functools import cache
from pathlib import Path

import pytest
from tests.contract.tree import ROOT, source_files, tracked

TOP = ("services", "shared", "cli", "demo", "deploy", "docs", "tests", "teams", "bench")

QUOTED = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(rf"^(?:{'|'.join(TOP)})/[\w./*-]*$")
FUNCTION = re.compile(r"^(?:[\w.]+\.)?([a-z][a-z0-9]*_\w+)(?:\(\))?$")
GENERATED = ROOT / "docs" / "contracts.md"


def documents() -> list[Path]:
    found = {*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")}
    found |= {path for part in TOP for path in (ROOT / part).rglob("README.md")}
    return sorted(path for path in found if {".venv", "node_modules"}.isdisjoint(path.parts) and path != GENERATED)


def quoted(document: Path) -> list[str]:
    """What stands between backticks in running text."""
    return QUOTED.findall(FENCED.sub("", document.read_text("utf-8")))


@cache
def words_of_the_sources() -> frozenset[str]:
    """Every word of the sources and tests: what a document calls by a name nobody uses is caught."""
    texts = [path.read_text("utf-8") for path in source_files("shared", "services", "cli", "demo", "tests")]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


each_document = pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))


@each_document
def test_every_path_a_document_names_exists(document: Path) -> None:
    known = tracked()
    named = [word.rstrip("/") for word in quoted(document) if PATH.match(word)]
    assert [path for path in named if "*" not in path and path not in known] == []
    assert [path for path in named if "*" in path and not list(ROOT.glob(path))] == []


@each_document
def test_every_link_within_the_repository_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", FENCED.sub("", document.read_text("utf-8")))
    assert [target for target in targets if not (document.parent / target).exists()] == []


@each_document
def test_every_function_a_document_names_is_in_the_sources(document: Path) -> None:
    named = [found[1] for word in quoted(document) if (found := FUNCTION.match(word))]
    assert [name for name in named if name not in words_of_the_sources()] == []
