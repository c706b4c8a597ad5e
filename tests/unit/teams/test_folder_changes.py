"""A folder is read again until what was read is what it holds."""

from pathlib import Path

import pytest

from pallas_teams import FolderChanges


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with a file each."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agents.yaml").write_text("as it was")
    return tmp_path / "one", tmp_path / "two"


def test_what_was_never_read_is_unread_and_what_was_read_is_not(folders: tuple[Path, Path]) -> None:
    one, two = folders
    changes = FolderChanges(folders)
    assert changes.unread() == [one, two]
    with changes.reading(one):
        pass
    assert changes.unread() == [two]


def test_a_folder_that_changes_is_unread_until_it_is_as_it_was(folders: tuple[Path, Path]) -> None:
    changes = FolderChanges(folders[:1])
    with changes.reading(folders[0]):
        pass
    (folders[0] / "agents.yaml").write_text("other")
    assert changes.unread() == [folders[0]]
    (folders[0] / "agents.yaml").write_text("as it was")
    assert changes.unread() == []


def test_a_change_that_was_taken_back_while_it_was_read_is_not_taken_for_read(folders: tuple[Path, Path]) -> None:
    file = folders[0] / "agents.yaml"
    changes = FolderChanges(folders[:1])
    file.write_text("changed")
    with changes.reading(folders[0]):
        file.write_text("as it was")
        assert file.read_text() == "as it was"
    file.write_text("changed")
    assert changes.unread() == [folders[0]]


def test_a_folder_that_cannot_be_used_is_read_nevertheless(folders: tuple[Path, Path]) -> None:
    changes = FolderChanges(folders[:1])
    with pytest.raises(ValueError, match="no good"), changes.reading(folders[0]):
        raise ValueError("no good")
    assert changes.unread() == []
    changes.forget(folders[0])
    assert changes.unread() == [folders[0]]
