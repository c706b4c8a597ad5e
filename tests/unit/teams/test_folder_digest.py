"""A worker notices every change of a folder, and none where there is none."""

from pathlib import Path

from pallas_teams import folder_digest


def test_any_file_counts(tmp_path: Path) -> None:
    seen = {folder_digest(tmp_path)}
    for name in ("agents.yaml", "harper.md", "tools.py", "deep/er/notes.txt", ".hidden"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
        seen.add(folder_digest(tmp_path))
        path.write_text("two")
        seen.add(folder_digest(tmp_path))
    assert len(seen) == 11


def test_a_renamed_file_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = folder_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert folder_digest(tmp_path) != before


def test_a_file_that_is_written_again_with_the_same_content_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = folder_digest(tmp_path)
    (tmp_path / "a").write_text("x")
    assert folder_digest(tmp_path) == before


def test_what_python_compiles_does_not_count(tmp_path: Path) -> None:
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


def test_the_place_of_a_folder_does_not_count(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agents.yaml").write_text("x")
    assert folder_digest(tmp_path / "one") == folder_digest(tmp_path / "two")


def test_a_folder_that_is_not_there_counts_as_empty(tmp_path: Path) -> None:
    assert folder_digest(tmp_path / "gone") == folder_digest(tmp_path)
