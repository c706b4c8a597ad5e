"""The `pallas` command as an operator runs it, against a running service between a Mnemosyne and a registry."""

from pathlib import Path

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import PASSWORD

pytest_plugins: list[str] = []


@pytest.fixture
def pallas(world: World, tmp_path: Path) -> Pallas:
    """The command."""
    return Pallas({"PALLAS_WORKSPACES_URL": world.lab.base, "PALLAS_ADMIN_PASSWORD": PASSWORD}, tmp_path)
