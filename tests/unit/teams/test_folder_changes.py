"""A team folder is unread until its present content has been read."""

from contextlib import suppress
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


def test_the_files_that_have_changed_are_known(folders: tuple[Path, Path]) -> None:
    changes, [one, _] = FolderChanges(folders), folders
    with changes.reading(one):
        pass
    assert changes.changed(one) == []
    (one / "agents.yaml").write_text("agents: {}", "utf-8")
    assert changes.changed(one) == ["agents.yaml"]


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


def test_what_tools_write_is_no_change_but_a_further_program_or_card_is(folders: tuple[Path, Path]) -> None:
    [one, *_] = folders
    (one / "instruction.md").write_text("as it was")
    (one / "notes.txt").write_text("as it was")
    changes = FolderChanges([one])
    with changes.reading(one):
        assert (one / "instruction.md").read_text() == "as it was"
    (one / "notes.txt").write_text("other")
    (one / "more.txt").write_text("more")
    (one / "script.py").write_text("print()")
    assert changes.unread() == []
    for name in ("instruction.md", "agents.yaml", "program.py", ".fast-agent/agent-cards/a.md"):
        path = one / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else None
        path.write_text("FastAgent")
        assert changes.unread() == [one], name
        path.unlink() if before is None else path.write_text(before)
        assert changes.unread() == [], name


def test_each_file_of_a_folder_that_does_not_work_may_be_the_remedy(folders: tuple[Path, Path]) -> None:
    [one, *_] = folders
    changes = FolderChanges([one])
    with changes.reading(one):
        pass
    changes.doubt(one)
    assert changes.unread() == []
    (one / "helper.py").write_text("x = 1")
    assert changes.unread() == [one]


def test_a_module_that_appears_may_be_the_remedy_of_an_agent_and_what_tools_write_is_not(
    folders: tuple[Path, Path],
) -> None:
    [one, *_] = folders
    (one / "tool.py").write_text("as it was")
    changes = FolderChanges([one])
    with changes.reading(one):
        with suppress(FileNotFoundError):
            (one / "wanted.json").read_text()
        changes.doubt(one, partial=True)
    assert changes.unread() == []
    (one / "notes.txt").write_text("other")
    (one / "tool.py").write_text("other")
    assert changes.unread() == []
    for name in ("lib/helper.py", "wanted.json"):
        (one / name).parent.mkdir(exist_ok=True)
        (one / name).write_text("")
        assert changes.unread() == [one], name
        (one / name).unlink()


def test_a_large_file_counts_without_being_read(folders: tuple[Path, Path]) -> None:
    [one, *_] = folders
    with (one / "model.bin").open("wb") as file:
        file.truncate(1 << 40)
    changes = FolderChanges([one])
    with changes.reading(one):
        pass
    assert changes.unread() == []


def test_what_a_server_writes_while_its_folder_is_read_does_not_count_as_a_change(folders: tuple[Path, Path]) -> None:
    [one, *_] = folders
    changes = FolderChanges([one])
    with changes.reading(one):
        (one / "cache.db").write_text("written by a server that has started")
    assert changes.unread() == []
