"""The settings of the worker: team folders and refused values."""

import os
from pathlib import Path

import pytest

from pallas_contracts.errors import Rejected
from pallas_hosting.worker import WorkerSettings


def test_team_folders_are_separated_as_in_the_path_variable() -> None:
    settings = WorkerSettings.from_env({"PALLAS_TEAMS": f"/a{os.pathsep}/b c{os.pathsep}"})
    assert settings.teams == (Path("/a"), Path("/b c"))


@pytest.mark.parametrize(
    ("variable", "value"), [("PALLAS_SLOTS", "0"), ("PALLAS_SLOTS", "many"), ("PALLAS_CONTENT_SECONDS", "-1")]
)
def test_a_bad_value_is_refused_with_its_variable(variable: str, value: str) -> None:
    with pytest.raises(Rejected, match=variable):
        WorkerSettings.from_env({variable: value})
