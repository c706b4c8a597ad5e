"""Probes of processes: when a broker that cannot write is started again."""

import shutil
from pathlib import Path

import pytest

from pallas_cli.processes.probes import ROOM, with_room


@pytest.mark.parametrize(
    ("free", "broken", "ended"), [(ROOM, True, True), (ROOM, False, False), (ROOM - 1, True, False)]
)
async def test_a_server_that_could_not_write_is_ended_once_its_disk_has_room(
    free: int, broken: bool, ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def complains() -> bool:
        return broken

    usage = shutil.disk_usage(tmp_path)._replace(free=free)

    def disk_usage(_: Path) -> object:
        return usage

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert await with_room(tmp_path, complains)() is ended
