"""The lock of the data folder."""

from pathlib import Path

import pytest

from pallas_cli.refused import Refused
from pallas_cli.stack.data import locked


def test_a_data_folder_in_use_is_refused_with_the_holder(tmp_path: Path) -> None:
    with locked(tmp_path / "data"), pytest.raises(Refused, match=r"in use by another instance \(pid \d+\)"):  # noqa: SIM117
        with locked(tmp_path / "data"):
            pass


def test_a_data_folder_can_be_used_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "data") as folder:
            assert folder.is_absolute()


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be used"), locked(tmp_path / "file" / "data"):
        pass
