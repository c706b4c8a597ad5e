"""The digest of a folder changes with its content and with nothing else."""

import os
from pathlib import Path

from pallas_teams import folder_digest


def test_every_file_changes_the_digest(tmp_path: Path) -> None:
    seen = {folder_digest(tmp_path)}
    for name in ("agents.yaml", "harper.md", "tools.py", "deep/er/notes.txt", ".hidden"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
        seen.add(folder_digest(tmp_path))
        path.write_text("two")
        seen.add(folder_digest(tmp_path))
    assert len(seen) == 11


def test_renaming_a_file_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = folder_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert folder_digest(tmp_path) != before


def test_writing_the_same_content_again_keeps_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = folder_digest(tmp_path)
    (tmp_path / "a").write_text("x")
    assert folder_digest(tmp_path) == before


def test_compiled_python_files_keep_the_digest(tmp_path: Path) -> None:
    before = folder_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "tools.cpython-313.pyc").write_bytes(b"x")
    assert folder_digest(tmp_path) == before


def test_the_links_of_a_mounted_config_map_are_followed(tmp_path: Path) -> None:
    (tmp_path / "..2026_1").mkdir()
    (tmp_path / "..2026_1" / "agents.yaml").write_text("one")
    (tmp_path / "..data").symlink_to("..2026_1")
    (tmp_path / "agents.yaml").symlink_to("..data/agents.yaml")
    before = folder_digest(tmp_path)
    (tmp_path / "..2026_2").mkdir()
    (tmp_path / "..2026_2" / "agents.yaml").write_text("two")
    assert folder_digest(tmp_path) == before
    (tmp_path / "..data").unlink()
    (tmp_path / "..data").symlink_to("..2026_2")
    assert folder_digest(tmp_path) != before


def test_the_digest_does_not_depend_on_the_path_of_the_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agents.yaml").write_text("x")
    assert folder_digest(tmp_path / "one") == folder_digest(tmp_path / "two")


def test_a_missing_folder_has_the_digest_of_an_empty_one(tmp_path: Path) -> None:
    assert folder_digest(tmp_path / "gone") == folder_digest(tmp_path)


def test_a_file_of_any_size_is_not_read_as_a_whole_and_its_changes_are_seen(tmp_path: Path) -> None:
    (tmp_path / "data.bin").touch()
    os.truncate(tmp_path / "data.bin", 1 << 40)  # to read it would take an hour
    before = folder_digest(tmp_path)
    assert folder_digest(tmp_path) == before
    os.truncate(tmp_path / "data.bin", (1 << 40) + 1)
    assert folder_digest(tmp_path) != before
