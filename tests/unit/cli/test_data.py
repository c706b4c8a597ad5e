"""The data folder: its lock, and the secrets in it."""

from pathlib import Path

import pytest

from pallas_cli.refused import Refused
from pallas_cli.stack.data import kept_secret, locked


def test_a_data_folder_in_use_is_refused_with_the_holder(tmp_path: Path) -> None:
    with locked(tmp_path / "data"), pytest.raises(Refused, match=r"in use by another instance \(pid \d+\)"):  # noqa: SIM117
        with locked(tmp_path / "data"):
            pass


def test_a_released_data_folder_can_be_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "data") as folder:
            assert folder.is_absolute()


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be used"), locked(tmp_path / "file" / "data"):
        pass


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = kept_secret(tmp_path, "word")
    assert len(first) == 64
    assert kept_secret(tmp_path, "word", lambda: "another") == first
    assert kept_secret(tmp_path, "other") != first
    secrets = tmp_path / "secrets"
    assert {path.name for path in secrets.iterdir()} == {"word", "other"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (secrets, *secrets.iterdir()))


def test_a_half_written_secret_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / ".word.new").write_text("hal")
    assert len(kept_secret(tmp_path, "word")) == 64
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["word"]
