"""The glossary: each word once, in order, in use; and no other word for what it names in what users read."""

import re
from functools import cache

import pytest
import typer
from tests.contract.test_docs import FENCED, QUOTED, documents
from tests.contract.tree import ROOT, source_files

from pallas_cli.main import commands
from pallas_cli.reference import leaves

GLOSSARY = ROOT / "docs" / "glossary.md"
WORDS = re.findall(r"^\| \*\*([^*]+)\*\* \|", GLOSSARY.read_text("utf-8"), re.MULTILINE)
INSTEAD = {
    "blacklist": "list of refused",
    "catalog": "catalogue",
    "dead-letter": "dead letter",
    "invocation": "call",
    "lookup": "look-up",
    "subagent": "sub-agent",
    "tenant": "team",
    "whitelist": "allow list",
    "workflow": "pipeline",
}
"""Words of the field that mean what a word of the glossary means."""
OF_OTHERS = ("pallas-lookups", "workflow engine", "durable workflow", "engine for", "in the workflow", "by workflow id")
"""The name of a package, and what other systems call theirs."""


def test_every_word_is_explained_once_and_in_order() -> None:
    assert [word.lower() for word in WORDS] == sorted({word.lower() for word in WORDS})


def test_every_word_is_in_use() -> None:
    pages = [page for page in documents() if page != GLOSSARY]
    found = [path.read_text("utf-8") for path in (*pages, *source_files("shared", "services", "cli", "clients"))]
    text = re.sub(r"[\s_-]+", " ", " ".join(found)).lower()
    assert [word for word in WORDS if re.sub(r"[\s_-]+", " ", word.lower()) not in text] == []


@cache
def read_by_users() -> dict[str, str]:
    """Running text of documents for users, and the help of commands."""
    skipped = ("docs/adr/", "docs/contracts", "docs/settings.md", "CHANGELOG.md", "bench/")
    pages = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in documents()}
    running = {
        name: QUOTED.sub("", FENCED.sub("", text)) for name, text in pages.items() if not name.startswith(skipped)
    }
    helps = {" ".join(words): command.help for words, command in leaves(typer.main.get_command(commands))}
    return running | helps


@pytest.mark.parametrize("name", sorted(read_by_users()))
def test_users_read_no_other_word_for_one_of_the_glossary(name: str) -> None:
    text = re.sub(r"\]\([^)]*\)", "", read_by_users()[name]).lower()
    for phrase in OF_OTHERS:
        text = text.replace(phrase, "")
    assert [(word, INSTEAD[word]) for word in INSTEAD if re.search(rf"\b{word}s?\b", text)] == []
