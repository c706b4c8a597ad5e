"""Writes team folders for the tests of `pallas_teams`."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from pallas_teams import Fault, TeamFaults, TeamFolder, load_team

OFFLINE = "default_model: offline\n"


def write_team(folder: Path, agents: str, config: str = OFFLINE, secrets: str | None = None, **files: str) -> Path:
    """Write a folder; `files` are further ones, with `__` for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"agents.yaml": agents, "fastagent.config.yaml": config, "fastagent.secrets.yaml": secrets}
    texts |= {name.replace("__", "."): text for name, text in files.items()}
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(dedent(text))
    return folder


def load(folder: Path, environ: Mapping[str, str] | None = None) -> TeamFolder:
    return load_team(folder, environ or {})


def faults_of(folder: Path, environ: Mapping[str, str] | None = None) -> tuple[Fault, ...]:
    with pytest.raises(TeamFaults) as caught:
        load_team(folder, environ or {})
    return caught.value.faults


def only_fault(folder: Path, environ: Mapping[str, str] | None = None) -> Fault:
    faults = faults_of(folder, environ)
    assert len(faults) == 1, [str(fault) for fault in faults]
    return faults[0]
