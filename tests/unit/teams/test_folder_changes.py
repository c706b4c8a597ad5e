"""A team folder is unread until its present content has been read."""

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


def test_a_folder_is_unread_until_it_has_been_read(folders: tuple[Path, Path]) -> None:
    one, two = folders
    changes = FolderChanges(folders)
    assert changes.unread() == [one, two]
    with changes.reading(one):
        pass
    assert changes.unread() == [two]


def test_a_changed_folder_is_unread_until_the_change_is_undone(folders: tuple[Path, Path]) -> None:
    changes = FolderChanges(folders[:1])
    with changes.reading(folders[0]):
        pass
    (folders[0] / "agents.yaml").write_text("other")
    assert changes.unread() == [folders[0]]
    (folders[0] / "agents.yaml").write_text("as it was")
    assert changes.unread() == []


def test_a_change_that_is_undone_while_it_is_read_does_not_count_as_read(folders: tuple[Path, Path]) -> None:
    file = folders[0] / "agents.yaml"
    changes = FolderChanges(folders[:1])
    file.write_text("changed")
    with changes.reading(folders[0]):
        file.write_text("as it was")
        assert file.read_text() == "as it was"
    file.write_text("changed")
    assert changes.unread() == [folders[0]]


def test_a_folder_with_faults_counts_as_read_until_it_is_forgotten(folders: tuple[Path, Path]) -> None:
    changes = FolderChanges(folders[:1])
    with pytest.raises(ValueError, match="no good"), changes.reading(folders[0]):
        raise ValueError("no good")
    assert changes.unread() == []
    changes.forget(folders[0])
    assert changes.unread() == [folders[0]]
