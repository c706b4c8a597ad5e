"""All commands follow one convention (CONTRIBUTING.md), and docs/cli.md has the help of each."""

import re
from typing import Any

import pytest
import typer
from tests.contract.tree import ROOT
from tests.requirements import requirement

from pallas_cli import main
from pallas_cli.reference import DOCUMENT, document, leaves

COMMANDS: dict[tuple[str, ...], Any] = dict(leaves(typer.main.get_command(main.commands)))
GROUPS = {words[0] for words in COMMANDS if len(words) > 1}

WITHOUT_JSON = {
    ("up",): "runs until Ctrl-C; --ready-file is its JSON",
    ("data-agent", "run"): "runs until Ctrl-C",
    ("completion",): "prints a script",
}
IRREVERSIBLE_COMMANDS = {("k8s", "apply")}
IRREVERSIBLE = {"cancel", "delete", "forget", "prune", "restore", "retire", "revoke", "rotate", "purge"}
WITHOUT_QUESTION = {("broker", "rotate"): "the old seed stays valid"}
OTHER_WORDS = {
    **dict.fromkeys(("add", "new", "make", "register", "issue"), "create"),
    **dict.fromkeys(("remove", "rm", "drop", "destroy", "erase"), "delete"),
    **dict.fromkeys(("get", "describe", "view", "info"), "show"),
    "ls": "list",
}
ELSEWHERE = {("context", "add"): "the platform exists already"}

each_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def options(words: tuple[str, ...]) -> set[str]:
    """The options of a command."""
    return {option for parameter in COMMANDS[words].params for option in (*parameter.opts, *parameter.secondary_opts)}


@requirement("K-cli-1")
@each_command
def test_a_command_that_prints_data_has_json(words: tuple[str, ...]) -> None:
    assert ("--json" in options(words)) != (words in WITHOUT_JSON)


@requirement("K-cli-1")
@each_command
def test_a_command_that_cannot_be_undone_has_yes(words: tuple[str, ...]) -> None:
    irreversible = words in IRREVERSIBLE_COMMANDS or (words[-1] in IRREVERSIBLE and words not in WITHOUT_QUESTION)
    assert "--yes" in options(words) or not irreversible


@requirement("K-cli-1")
@each_command
def test_verbs_are_the_same_everywhere(words: tuple[str, ...]) -> None:
    assert words[-1] not in OTHER_WORDS or words in ELSEWHERE, f"call it {OTHER_WORDS[words[-1]]}"


@requirement("K-cli-1")
@each_command
def test_a_list_is_read_in_parts_in_the_same_way_everywhere(words: tuple[str, ...]) -> None:
    assert words[-1] not in ("list", "history") or {"--limit", "--after"} <= options(words)
    assert options(words).isdisjoint({"--page", "--size", "--cursor", "--offset"})


@each_command
def test_a_command_and_its_options_say_what_they_are_for(words: tuple[str, ...]) -> None:
    assert COMMANDS[words].help
    assert [
        each.name for each in COMMANDS[words].params if not getattr(each, "help", None) and each.name != "help"
    ] == []


def test_the_help_of_a_group_has_its_commands_in_whole_sentences() -> None:
    root: Any = typer.main.get_command(main.commands)
    cut: list[str] = []
    for group in [root, *(root.commands[name] for name in GROUPS)]:
        names = group.list_commands(None)
        room = 80 - 6 - max(map(len, names))
        cut += [name for name in names if group.get_command(None, name).get_short_help_str(room).endswith("...")]
    assert cut == []


@each_command
def test_arguments_are_named_in_capitals_and_their_brackets_are_those_of_the_help(words: tuple[str, ...]) -> None:
    named = [each.metavar for each in COMMANDS[words].params if each.param_type_name == "argument"]
    assert [name for name in named if not name or re.fullmatch(r"[A-Z]+([|:=][A-Z]+)*", name) is None] == []


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_what_can_be_listed_can_be_shown_and_what_is_created_can_be_listed(group: str) -> None:
    verbs = {words[1] for words in COMMANDS if words[0] == group and len(words) > 1}
    assert "show" in verbs or "list" not in verbs
    assert "list" in verbs or "create" not in verbs


@requirement("K-doc-2")
def test_the_reference_has_the_help_of_every_command() -> None:
    assert (ROOT / DOCUMENT).read_text("utf-8") == document(), "run: make gen"
