"""Which files `pallas libraries ingest` sends as documents."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from library_search.reading.formats import KINDS
from pallas_cli import main
from pallas_cli.libraries import ENDINGS, find_files
from pallas_cli.refused import Refused


def test_the_file_endings_are_those_that_library_search_reads() -> None:
    assert tuple(KINDS) == ENDINGS


def test_a_folder_gives_all_documents_below_it_and_lists_what_it_skips(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    for name in ("a.md", "deep/er/b.PDF", "deep/c.txt", ".git/d.md", ".e.md", "f.py", "deep/g"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")
    (tmp_path / "outside.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    (folder / "inside.md").symlink_to(folder / "a.md")
    (folder / "loop").symlink_to(folder)
    found = find_files([folder])
    assert list(found.documents) == ["a.md", "deep/c.txt", "deep/er/b.PDF", "inside.md"]
    assert set(found.skipped) == {"f.py", "deep/g", "link.md"}


def test_the_path_of_a_single_file_is_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    assert find_files([tmp_path / "a.md", tmp_path]).documents == {"a.md": tmp_path / "a.md"}


def test_every_bad_path_is_named(tmp_path: Path) -> None:
    for name in ("one/a.md", "two/a.md", "b.exe"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    with pytest.raises(Refused) as refused:
        find_files([tmp_path / "one", tmp_path / "two", tmp_path / "b.exe", tmp_path / "missing"])
    clash, kind, missing = refused.value.lines
    assert "would both get the path 'a.md'" in clash
    assert "b.exe: unsupported file type; supported are .md, " in kind
    assert missing.endswith("missing: does not exist")


def test_a_folder_without_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no documents found"):
        find_files([tmp_path])


def test_ingesting_needs_the_password_of_the_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALLAS_ADMIN_PASSWORD", raising=False)
    monkeypatch.chdir(tmp_path)  # `make up` keeps the password in the folder of the project
    result = CliRunner().invoke(main.commands, ["libraries", "ingest", str(tmp_path), "--library", "x"])
    assert isinstance(result.exception, Refused)
    assert "PALLAS_ADMIN_PASSWORD" in result.exception.lines[0]
