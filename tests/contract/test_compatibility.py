"""A release reads what the release before it writes, and the other way round: rules of docs/upgrade.md as checks."""

import ast
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.tree import ROOT
from tests.upgrade import previous
from tests.upgrade.compare import breaks, contracts

from pallas_contracts import catalog
from pallas_contracts.turns import TURN_ERRORS

SCHEMAS = "shared/contracts/schemas"
VERSIONS = [
    "services/library-search/src/library_search/migrations/versions",
    "services/team-lifecycle/src/team_lifecycle/migrations/versions",
    "services/workspaces/src/workspaces/migrations/versions",
]
EXPANDS = {
    *("create_table", "create_index", "add_column", "create_foreign_key", "create_check_constraint"),
    *("execute", "bulk_insert", "f", "get_bind", "get_context", "batch_alter_table"),
}
"""Operations that old code does not notice. A statement of `execute` is for its author to judge; see `CONTRACTS`."""
CONTRACTS = ("drop table", "drop column", "rename", "set not null", "drop constraint", "alter type", "alter column")


def schema(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / SCHEMAS).glob("*.json")))
def test_a_message_is_compatible_with_the_release_before(name: str) -> None:
    before = previous.text(f"{SCHEMAS}/{name}")
    if before is not None:
        assert breaks(schema(before), schema((ROOT / SCHEMAS / name).read_text("utf-8"))) == []


def test_no_message_of_the_release_before_is_gone() -> None:
    assert set(previous.names(SCHEMAS)) - {path.name for path in (ROOT / SCHEMAS).glob("*.json")} == set()


def named(read: Callable[[str], str | None]) -> set[str]:
    """Streams, buckets, subjects, questions and error codes in the reference of a release."""
    pages = (read("docs/contracts.md"), read("docs/errors.md"))
    return {name for page in pages if page is not None for names in contracts(page).values() for name in names}


def test_no_stream_bucket_subject_question_or_error_code_of_the_release_before_is_gone() -> None:
    before, now = named(previous.text), named(lambda path: (ROOT / path).read_text("utf-8"))
    assert before
    assert before - now == set()
    assert {stream.name for stream in catalog.STREAMS} | set(TURN_ERRORS) <= now


@pytest.mark.parametrize("folder", VERSIONS)
def test_new_migrations_only_expand(folder: str) -> None:
    new = {path.name for path in (ROOT / folder).glob("r*.py")} - set(previous.names(folder))
    assert {name: contracting((ROOT / folder / name).read_text("utf-8")) for name in new} == {name: [] for name in new}


@pytest.mark.parametrize("folder", VERSIONS)
def test_no_migration_of_the_release_before_is_changed(folder: str) -> None:
    for name in previous.names(folder):
        if name.startswith("r"):
            assert (ROOT / folder / name).read_text("utf-8").rstrip("\n") == previous.text(f"{folder}/{name}"), name


def contracting(source: str) -> list[str]:
    """What a migration does on its way up that the release before would notice."""
    [upgrade] = [
        each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == "upgrade"
    ]
    found: list[str] = []
    for call in (node for node in ast.walk(upgrade) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="op"), attr=operation) if operation not in EXPANDS:
                found.append(operation)
            case ast.Attribute(value=ast.Name(id="op"), attr="add_column") if _must_be_written(call):
                found.append("add_column without a default")
            case _:
                pass
    text = " ".join(ast.unparse(upgrade).lower().split())
    return found + [words for words in CONTRACTS if words in text]


def _must_be_written(call: ast.Call) -> bool:
    text = ast.unparse(call)
    return "nullable=False" in text and "server_default" not in text


A_MIGRATION = """
def upgrade() -> None:
    op.add_column("teams", sa.Column("note", sa.Text(), {column}))
    {operation}

def downgrade() -> None:
    op.drop_column("teams", "note")
"""


@pytest.mark.parametrize(
    ("column", "operation", "found"),
    [
        ("nullable=True", "op.create_index('i', 'teams', ['note'])", []),
        ("nullable=False, server_default=''", "pass", []),
        ("nullable=False", "pass", ["add_column without a default"]),
        ("nullable=True", "op.drop_column('teams', 'name')", ["drop_column"]),
        ("nullable=True", "op.alter_column('teams', 'name', nullable=False)", ["alter_column"]),
        ("nullable=True", "op.execute('alter table teams rename to groups')", ["rename"]),
    ],
)
def test_a_migration_that_old_code_would_notice_is_found(column: str, operation: str, found: list[str]) -> None:
    assert contracting(A_MIGRATION.format(column=column, operation=operation)) == found


A_SCHEMA: dict[str, Any] = {
    "properties": {
        "id": {"type": "string"},
        "status": {"enum": ["ok", "error"], "type": "string"},
        "inner": {"$ref": "#/$defs/Inner"},
    },
    "required": ["id"],
    "$defs": {"Inner": {"properties": {"n": {"type": "integer"}}, "required": []}},
}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (("properties", "more"), {"type": "string", "default": ""}, []),
        (("properties", "id"), None, ["id is gone"]),
        (("properties", "id"), {"type": "integer"}, ["id: another type"]),
        (("properties", "id"), {"anyOf": [{"type": "string"}, {"type": "null"}]}, ["id: another type"]),
        (("properties", "status"), {"enum": ["ok"], "type": "string"}, ["status: values are gone"]),
        (("required",), ["id", "status"], ["status is required now"]),
        (("$defs", "Inner", "properties", "n"), None, ["Inner.n is gone"]),
    ],
)
def test_a_change_that_breaks_a_message_is_found(path: tuple[str, ...], value: Any, found: list[str]) -> None:
    changed = place = copy.deepcopy(A_SCHEMA)
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    assert breaks(A_SCHEMA, changed) == found


def test_a_clone_without_history_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str | None:
        return "true" if words[-1] == "--is-shallow-repository" else None

    monkeypatch.setattr(previous, "_git", git)
    previous.commit.cache_clear()
    with pytest.raises(previous.NoHistory, match="git fetch --unshallow --tags"):
        previous.commit()
    previous.commit.cache_clear()


def test_the_pages_name_the_checks() -> None:
    page = (ROOT / "docs" / "upgrade.md").read_text("utf-8")
    assert Path(__file__).relative_to(ROOT).as_posix() in page
    assert "tests/upgrade/test_rolling_upgrade.py" in page
