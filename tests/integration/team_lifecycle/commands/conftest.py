"""The `pallas` command as an admin runs it, against a running service."""

from pathlib import Path

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.team_lifecycle.lab import ADMIN_PASSWORD, Lifecycle


@pytest.fixture
def environ(lifecycle: Lifecycle) -> dict[str, str]:
    """The variables with the service's URL and the admin password."""
    return {"PALLAS_TEAM_LIFECYCLE_URL": lifecycle.base, "PALLAS_ADMIN_PASSWORD": ADMIN_PASSWORD}


@pytest.fixture
def pallas(environ: dict[str, str], tmp_path: Path) -> Pallas:
    """The command."""
    return Pallas(environ, tmp_path)
