"""Paths, functions and commands that documents name exist."""

import ast
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml
from deploy.observability.exposed import exposed
from tests.contract.tree import ROOT, source_files, tracked
from tests.requirements import requirement
from typer.core import TyperGroup

from pallas_cli.groups import Alone
from pallas_cli.main import commands
from pallas_cli.reference import leaves

TOP = ("services", "shared", "clients", "cli", "demo", "deploy", "docs", "tests", "teams", "bench")

QUOTED = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(rf"^(?:{'|'.join(TOP)})/[\w./*-]*$")
MODULE = re.compile(r"^[\w/-]+\.py$")
PAST = re.compile(r"^## Before and after$.*?(?=^## )", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?:[\w.]+\.)?([a-z][a-z0-9]*_\w+)(?:\(\))?$")
TYPED = re.compile(
    r"^ *(?:\$ )?(?:uv run |[A-Z_]+=\S+ )*(?:pallas|make|docker|kubectl|helm|claude|npx|uvx|curl) \S", re.MULTILINE
)
INFO = re.compile(r"^ *```(\S*)([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"\bpallas ([a-z][^\n#`;)]*)")
COMMANDS = typer.main.get_command(commands)
LEAVES = dict(leaves(COMMANDS))  # this imports every group
READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}
"""What reads the configuration of a client, a team folder and others, as a document shows it."""
PROGRAMS = ("yaml", "json", "toml", "python", "js", "ts", "mermaid")
GENERATED = {ROOT / "docs" / "contracts.md", ROOT / "docs" / "metrics.md"}


def documents() -> list[Path]:
    found = {*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")}
    found |= {path for part in TOP for path in (ROOT / part).rglob("README.md")}
    return sorted(path for path in found if {".venv", "node_modules"}.isdisjoint(path.parts) and path not in GENERATED)


def quoted(document: Path) -> list[str]:
    """What stands between backticks in running text."""
    return QUOTED.findall(FENCED.sub("", document.read_text("utf-8")))


@cache
def words_of_the_sources() -> frozenset[str]:
    """Every word of the sources and tests: a document that uses an unknown name is found."""
    texts = [
        path.read_text("utf-8")
        for path in source_files("shared", "services", "clients", "cli", "demo", "deploy", "tests")
    ]
    metrics = {series for metric in exposed() for series in metric.series}
    return frozenset(word for text in texts for word in re.findall(r"\w+", text)) | metrics


each_document = pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))


@each_document
def test_every_path_a_document_names_exists(document: Path) -> None:
    known = tracked()
    named = [word.rstrip("/") for word in quoted(document) if PATH.match(word)]
    assert [path for path in named if "*" not in path and path not in known] == []
    assert [path for path in named if "*" in path and not list(ROOT.glob(path))] == []


def modules_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """The modules that a text names. In a table of what is where, each with its rooms, which may be in a row above."""
    what_is_where, rooms = False, list[str]()
    for line in PAST.sub("", FENCED.sub("", text)).splitlines():
        what_is_where = line.startswith("| where | file |") or (what_is_where and line.startswith("|"))
        where, file = line.split("|")[1:3] if what_is_where else ("", line)
        rooms = QUOTED.findall(where) if where.strip() or not what_is_where else rooms
        named = QUOTED.findall(file)
        of = [word for word in named if what_is_where and not MODULE.match(word)]
        yield from ((word, [*rooms, *of]) for word in named if MODULE.match(word))


def is_there(module: str, rooms: list[str]) -> bool:
    found = [f"/{path}" for path in tracked() if f"/{path}".endswith(f"/{module}")]
    return any(not rooms or any(f"/{room}/" in path for room in rooms) for path in found)


@pytest.mark.parametrize(
    "document", [ROOT / "docs/architecture.md", *sorted(ROOT.glob("docs/adr/*.md"))], ids=lambda path: path.name
)
def test_every_module_that_explains_the_architecture_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    assert [named for named in modules_in(text) if not is_there(*named)] == []


def test_every_module_that_the_docstring_of_another_names_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), word)
        for path in source_files("shared", "services", "clients", "cli", "demo", "deploy")
        for word in QUOTED.findall(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
        if MODULE.match(word)
    }
    assert [(path, word) for path, word in sorted(named) if not is_there(word, [])] == []


def test_a_module_that_moved_to_another_room_is_found() -> None:
    rows = "| where | file | does |\n|---|---|---|\n| fleet, `seeing` | `status.py` | it |\n| | `agents.py` | it |\n"
    assert [named for named in modules_in(rows) if not is_there(*named)] == [("agents.py", ["seeing"])]


@each_document
def test_every_link_within_the_repository_leads_to_an_existing_path(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", FENCED.sub("", document.read_text("utf-8")))
    assert [target for target in targets if not (document.parent / target).exists()] == []


@each_document
def test_every_link_to_a_heading_leads_to_one(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", FENCED.sub("", document.read_text("utf-8")))
    targets = [(document.parent / path if path else document, heading) for path, heading in links]
    assert [
        (path, heading) for path, heading in targets if path.suffix == ".md" and heading not in headings(path)
    ] == []


@cache
def headings(document: Path) -> frozenset[str]:
    """The anchors of a document's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ +(.*?) *$", FENCED.sub("", document.read_text("utf-8")), re.MULTILINE)
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in shown)


@each_document
def test_a_block_of_configuration_can_be_read(document: Path) -> None:
    for language, _, text in INFO.findall(document.read_text("utf-8")):
        READERS.get(language, str)(textwrap.dedent(text))


@each_document
def test_every_function_a_document_names_is_in_the_sources(document: Path) -> None:
    named = [found[1] for word in quoted(document) if (found := FUNCTION.match(word))]
    assert [name for name in named if name not in words_of_the_sources()] == []


def commands_in(document: Path) -> list[list[str]]:
    """The words after `pallas` wherever a document shows a command: in blocks, and between backticks."""
    text = document.read_text("utf-8")
    shown = "\n".join([*FENCED.findall(text), *(word for word in quoted(document) if word.startswith("pallas "))])
    return [line.split() for line in COMMAND.findall(shown)]


def fault_of(words: list[str]) -> str | None:
    """Which of these words the command line does not know; alternatives have bars between them."""
    command = COMMANDS
    while isinstance(command, TyperGroup) and words:
        first, *words = words
        if unknown := [name for name in first.split("|") if name not in command.commands]:
            return unknown[0]
        command = command.commands[first.split("|")[0]]
        command = command.loaded if isinstance(command, Alone) else command
    if not command.context_settings.get("allow_interspersed_args", True):
        words = words[:1]  # the others are options of something else, such as a tool
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options.add("--context")  # of `pallas` itself, and accepted behind every command
    return next((word for word in words if word.startswith("--") and word not in options), None)


@requirement("A-15.1")
@each_document
def test_every_command_a_document_shows_exists(document: Path) -> None:
    assert [(words, fault) for words in commands_in(document) if (fault := fault_of(words))] == []


@requirement("K-doc-1")
@each_document
def test_a_block_of_commands_is_run_or_says_what_it_needs(document: Path) -> None:
    blocks = INFO.findall(document.read_text("utf-8"))
    typed = [(language, info) for language, info, text in blocks if language not in PROGRAMS and TYPED.search(text)]
    assert [block for block in typed if block[0] not in ("sh", "console")] == []
    assert [block for block in typed if block[1] and not re.fullmatch(r' needs="[^"]+"', block[1])] == []


@requirement("A-15.1")
@pytest.mark.parametrize("group", ["users", "libraries", "tokens", "keys", "teams"])
def test_every_command_of_an_admin_is_in_the_document_for_admins(group: str) -> None:
    commands_of = {words[1] for words in LEAVES if words[0] == group and len(words) > 1}
    shown = {words[1] for words in commands_in(ROOT / "docs" / "auth.md") if words[0] == group and len(words) > 1}
    assert commands_of - shown == set()


@requirement("A-15.1")
@pytest.mark.parametrize("group", ["workspaces", "instances"])
def test_every_command_of_the_console_is_in_its_document(group: str) -> None:
    commands_of = {words[1] for words in LEAVES if words[0] == group and len(words) > 1}
    shown = {words[1] for words in commands_in(ROOT / "docs" / "console.md") if words[0] == group and len(words) > 1}
    assert commands_of - shown == set()


@requirement("A-11.3.1")
def test_every_phase_of_the_migration_says_when_it_is_done_and_how_to_go_back() -> None:
    text = (ROOT / "docs" / "auth-migration.md").read_text("utf-8")
    phases = text.split("\n## ")[1:]
    assert [phase[:2] for phase in phases] == [f"{number}." for number in range(1, 7)]
    for phase in phases:
        assert re.findall(r"^- \*\*(.+)\*\*: ", phase, re.MULTILINE) == ["Done when", "Way back"]
        assert f"\n| {phase.partition('. ')[0]}. " in text, "the table has it, too"


def test_an_unknown_command_or_option_is_found() -> None:
    assert fault_of(["teams", "list|shew"]) == "shew"
    assert fault_of(["teams", "create", "Kottos", "--uuid", "x"]) == "--uuid"
    assert fault_of(["teams", "create", "Kottos", "--id", "x"]) is None
